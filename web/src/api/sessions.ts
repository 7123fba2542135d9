/** Sessions of coding agents in the server's JSON, and reading one of them. */

import { useEffect, useState } from "preact/hooks";

import { errorMessage, isAbort, json, path } from "./client";

export type Category = "system" | "tools" | "files" | "results" | "user" | "assistant" | "thinking" | "summary";

export interface SessionRow {
  id: string;
  /** The program's own id. */
  name: string;
  program: string;
  folder: string;
  title: string;
  modified: number;
}

export interface SessionList {
  sessions: SessionRow[];
  next: string | null;
  programs: Record<string, number>;
}

/** A request: what was billed, and the tokens of its prompt by category. `unseen` is not in the file. */
export interface Turn {
  number: number;
  at: number;
  model: string;
  prompt: number;
  read: number;
  written: number;
  output: number;
  tokens: Record<Category, number>;
  unseen: number;
  compacted: boolean;
}

export interface Miss {
  turn: number;
  at: number;
  model: string;
  cause: string;
  tokens: number;
  idle: number;
  cost: number | null;
  message: number | null;
  advice: string;
}

export interface Again {
  text: string;
  handle: string;
  turn: number;
  is_call: boolean;
}

export interface Loss {
  turn: number;
  at: number;
  dropped: number;
  used_again: number;
  again: Again[];
}

export interface Report {
  model: string;
  window: number;
  requests: number;
  prompt: number;
  read: number;
  largest: number;
  turns: Turn[];
  missed: number;
  missed_tokens: number;
  missed_cost: number | null;
  misses: Miss[];
  compactions: number;
  losses: Loss[];
  unknown: Record<string, number>;
}

export interface SessionView {
  session: SessionRow;
  progress: number;
  report: Report | null;
}

const PAUSE = 250; // ms between two looks at a session that is being read

/** A session, and as long as its file is being read, how far that is. `again` starts anew after an error. */
export function useSession(id: string): { data: SessionView | null; error: string; again: () => void } {
  const [data, setData] = useState<SessionView | null>(null);
  const [error, setError] = useState("");
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const follow = async () => {
      while (!signal.aborted) {
        const view = await json<SessionView>(path`/sessions/${id}`, { signal });
        setData(view);
        if (view.report !== null) return;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    };
    setError("");
    follow().catch((problem: unknown) => {
      if (!isAbort(problem)) setError(errorMessage(problem));
    });
    return () => controller.abort();
  }, [id, attempt]);
  return { data, error, again: () => setAttempt((n) => n + 1) };
}
