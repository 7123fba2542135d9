/** Answers under way, by room. They go on while another page is shown. */

import { signal } from "@preact/signals";

import { applyEvent, NEW_TURN, type Turn } from "../logic/chat";
import { call, errorMessage, isAbort, json, path, query } from "./client";
import { readEvents } from "./events";
import type { MessageList } from "./records";

/** What to answer: a new text under an id, or a message of the room. */
export interface Question {
  id?: string;
  content?: string;
  message?: string;
  rewind?: boolean;
  persona?: string;
  model?: string;
}

export interface Running extends Turn {
  question: Question;
  busy: boolean;
  error: string;
}

export const turns = signal<ReadonlyMap<string, Running>>(new Map());

const controllers = new Map<string, AbortController>();

function put(room: string, turn: Running | null): void {
  const all = new Map(turns.value);
  if (turn) all.set(room, turn);
  else all.delete(room);
  turns.value = all;
}

/** Have a question answered. One at a time in each room. */
export async function ask(room: string, question: Question): Promise<void> {
  if (turns.value.get(room)?.busy) return;
  const controller = new AbortController();
  controllers.set(room, controller);
  let turn: Running = { ...NEW_TURN, question, busy: true, error: "" };
  put(room, turn);
  try {
    const response = await call(path`/rooms/${room}/respond`, {
      method: "POST", body: { ...question, stream: true }, signal: controller.signal, headers: { accept: "text/event-stream" },
    });
    await readEvents(response, ({ event, data }) => {
      turn = { ...turn, ...applyEvent(turn, event, data) };
      put(room, turn);
    });
    const isWhole = turn.replies.length > 0 && turn.replies.every((reply) => reply.done);
    turn = { ...turn, error: isWhole ? "" : "The connection was lost before the answer was complete." };
  } catch (error) {
    turn = { ...turn, error: isAbort(error) ? "" : errorMessage(error), posted: turn.posted || (await isPosted(room, question)) };
  }
  put(room, { ...turn, busy: false });
}

/** Whether the room has a question: an upstream may fail after it was stored. */
async function isPosted(room: string, { id }: Question): Promise<boolean> {
  if (!id) return false;
  const where = path`/rooms/${room}/messages` + query({ limit: 20 });
  const list = await json<MessageList>(where).catch(() => null);
  return list?.messages.some((each) => each.id === id) ?? false;
}

/** Stop an answer. The server stores what has arrived. */
export function stop(room: string): void {
  controllers.get(room)?.abort();
}

/** Forget a finished turn. */
export function clear(room: string): void {
  if (!turns.value.get(room)?.busy) put(room, null);
}
