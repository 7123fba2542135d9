/** Types of runs of agents. */

import type { Notice, RunView } from "./types";

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
}

export interface Step {
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
  recalls: number;
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
