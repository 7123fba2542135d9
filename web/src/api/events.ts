/** The server's event stream. A lost connection is resumed where it ended. */

import { useEffect, useRef, useState } from "preact/hooks";

import { eventReader, type ServerEvent } from "../logic/sse";
import { ApiError, call, isAbort, key } from "./client";
import type { AnswerEvent, ContextRow } from "./types";

export type Connection = "connecting" | "live" | "lost";

const WAITS = [500, 1000, 2000, 5000, 10_000]; // ms before the next attempt

export interface Listener {
  event(event: ServerEvent): void;
  state(state: Connection): void;
}

/** Follow events until aborted. Stops on a missing API key; the caller starts again once there is one. */
export async function follow({ event, state }: Listener, signal: AbortSignal): Promise<void> {
  let last = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (last) headers["last-event-id"] = last;
      const response = await call("/events", { signal, headers });
      failures = 0;
      state("live");
      await readEvents(response, (found) => {
        last = found.id || last;
        event(found);
      });
    } catch (error) {
      if (isAbort(error)) return;
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return state("lost");
    }
    state("lost");
    await pause(WAITS[Math.min(failures++, WAITS.length - 1)] ?? 0, signal);
  }
}

/** Read the events of a response until it ends. */
export async function readEvents(response: Response, tell: (event: ServerEvent) => void): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const take = eventReader();
  while (reader !== undefined) {
    const { done, value } = await reader.read();
    if (done) return;
    take(value).forEach(tell);
  }
}

/** Wait, but stop early if the network or the focus comes back. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      for (const name of ["online", "focus"]) removeEventListener(name, end);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    for (const name of ["online", "focus"]) addEventListener(name, end);
    signal.addEventListener("abort", end);
  });
}

export interface EventHandlers {
  context(row: ContextRow): void;
  answer(answer: AnswerEvent): void;
  connected?(): void;
}

/** Follow the server's events; after each reconnect, `connected` loads what was missed. */
export function useEvents(handlers: EventHandlers): Connection {
  const [state, setState] = useState<Connection>("connecting");
  const latest = useRef(handlers);
  latest.current = handlers;
  const secret = key.value;
  useEffect(() => {
    const controller = new AbortController();
    void follow(
      {
        event({ event, data }) {
          if (event === "context") latest.current.context(JSON.parse(data) as ContextRow);
          else if (event === "answer") latest.current.answer(JSON.parse(data) as AnswerEvent);
        },
        state(next) {
          setState(next);
          if (next === "live") latest.current.connected?.();
        },
      },
      controller.signal,
    );
    return () => controller.abort();
  }, [secret]);
  return state;
}
