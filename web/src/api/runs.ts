/** Runs of agents: types, and a run that follows its agent. */

import { useEffect, useMemo, useRef } from "preact/hooks";

import { latest } from "../logic/latest";
import { changedSince, mergeSteps } from "../logic/runs";
import { json, path, query } from "./client";
import { useEvents } from "./events";
import { type Resource, useResource } from "./resource";
import type { Feedback, Notice, RunView } from "./types";

export interface StepCall {
  name: string;
  /** The beginning of its arguments, as JSON. */
  arguments: string;
}

/** Where the seconds of a step went; null if that is not known. */
export interface StepTimes {
  retrieval: number | null;
  build: number | null;
  model: number | null;
  tools: number | null;
  recall: number | null;
}

export interface StepRecall {
  text: string;
  handle: string;
  query: string;
  tokens: number;
  seconds: number | null;
}

export interface Step {
  /** The position in the log. */
  number: number;
  id: string;
  at: number;
  model: string;
  tokens: number;
  available: number;
  candidates: number;
  left_out: number;
  lines: number;
  warnings: Notice[];
  degraded: Notice[];
  recorded: boolean;
  calls: StepCall[];
  answer: string;
  finish: string;
  recalls: StepRecall[];
  feedback: Feedback | null;
  prompt: number | null;
  cached: number | null;
  completion: number | null;
  cost: number | null;
  seconds: StepTimes;
}

export interface RunDetail {
  run: RunView;
  room: string;
  room_name: string;
  persona: string | null;
  persona_name: string;
  user: string | null;
  question: string;
  /** The number of the first step that is listed. */
  first: number;
  steps: Step[];
}

const TIMEOUT = 30_000; // ms

/** A run that follows its agent: after an event, only the steps that it may have changed are loaded, one request at a time. */
export function useRun(id: string): Resource<RunDetail> & { addEarlier: (page: RunDetail) => void } {
  const where = path`/runs/${id}`;
  const read = useResource<RunDetail>(where);
  const { data, put, reload } = read;
  const known = useRef(data);
  known.current = data;
  const since = useRef(Infinity); // the time of the first step to load again
  const news = useMemo(() => latest<null, RunDetail>(
    (_, signal) => {
      const from = since.current;
      since.current = Infinity;
      return json(where + query({ since: from }), { signal });
    },
    { answer: (part) => known.current && put(mergeSteps(known.current, part)), error: reload },
    TIMEOUT,
  ), [where, put, reload]);
  useEffect(() => news.stop, [news]);
  const changed = (context?: string) => {
    if (known.current === null) return reload();
    since.current = Math.min(since.current, changedSince(known.current.steps, context));
    news.ask(null);
  };
  useEvents({
    context: (row) => row.run?.id === id && changed(row.id),
    answer: (answer) => answer.run?.id === id && changed(answer.context),
    connected: () => known.current !== null && changed(),
  });
  const addEarlier = (page: RunDetail) => known.current && put({ ...known.current, first: page.first, steps: [...page.steps, ...known.current.steps] });
  return { ...read, addEarlier };
}
