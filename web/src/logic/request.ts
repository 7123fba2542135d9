/** The messages of a request, with what was left out between them. */

import type { Decision, Omission, RequestMessage, RequestMessages } from "../api/types";
import { plural, whole } from "./format";

export type Row = { message: RequestMessage; index: number } | { omission: Omission };

/** The rows of a request in its order: each message after what was left out before it. */
export function requestRows({ messages, omissions }: Pick<RequestMessages, "messages" | "omissions">): Row[] {
  const before = (index: number) => omissions.filter((each) => each.index === index).map((omission) => ({ omission }));
  return [...messages.flatMap((message, index) => [...before(index), { message, index }]), ...before(messages.length)];
}

/** The beginning of a list, what is collapsed in its middle, and its end. A few more rows are not worth collapsing. */
export function collapsed<T>(rows: readonly T[], edge: number): [T[], T[], T[]] {
  if (rows.length <= 2 * edge + 2) return [[...rows], [], []];
  return [rows.slice(0, edge), rows.slice(edge, -edge), rows.slice(-edge)];
}

/** What collapsed rows hold: "212 messages, 34,010 tokens". */
export function collapsedText(rows: readonly Row[]): string {
  const inside = rows.flatMap((row) => ("message" in row ? [row.message] : []));
  return `${plural(inside.length, "message")}, ${plural(inside.reduce((sum, each) => sum + each.tokens, 0), "token")}`;
}

const NOUNS: Record<string, [string, string?]> = {
  system: ["system prompt"], pinned: ["pinned item"], summaries: ["summary", "summaries"], recent: ["message"], tools: ["tool call or result", "tool calls and results"],
  lorebook: ["lorebook entry", "lorebook entries"], memories: ["memory", "memories"], older: ["older message found by search,", "older messages found by search,"],
  notes: ["note"], media: ["media item"], current: ["message"], definitions: ["tool definition"],
};

/** What is not in the request at one place: "12 messages left out, 3,410 tokens". `lines` says whether each is a line of the ledger. */
export function omissionText({ component, count, tokens, items, summary }: Omission, lines = false): string {
  const [one, many = `${one}s`] = NOUNS[component] ?? ["item"];
  const what = items.length === 0 ? `${plural(count, `older ${one}`, `older ${many}`)} not loaded` : `${plural(count, one, many)} ${lines ? "as one line each" : summary ? "replaced by a summary" : "left out"}`;
  return `${what}, ${plural(tokens, "token")}`;
}

/** What is cut from a shortened item: "excerpt: 1,666 of 1,900 tokens cut". */
export function cutText({ form, tokens, size }: Pick<Decision, "form" | "tokens" | "size">): string {
  return `${form}: ${whole(Math.max(0, size - tokens))} of ${plural(size, "token")} cut`;
}

export interface Piece {
  text: string;
  isSeen: boolean;
}

const GAP = /\[…[^\]\n]*\]/; // stands for what was cut
const SHORTEST = 12; // characters of a part of a sentence that is recognized

/** A text in pieces that the model saw or did not see, of sentences and lines. `seen` has some of them, in their order. */
export function pieces(full: string, seen: string): Piece[] {
  const texts = split(full);
  const sentences = texts.map(normal);
  const marked = new Set<number>();
  let next = 0;
  for (const words of seen.split(GAP).flatMap(split).map(normal).filter(Boolean)) {
    let index = sentences.indexOf(words, next);
    if (index < 0 && words.length >= SHORTEST) index = sentences.findIndex((each, at) => at >= next && each.includes(words));
    if (index < 0) continue;
    marked.add(index);
    next = index + 1;
  }
  const found: Piece[] = [];
  for (const [index, text] of texts.entries()) {
    const last = found.at(-1);
    const isSeen = sentences[index] ? marked.has(index) : (last?.isSeen ?? false); // a blank belongs to what is before it
    if (last?.isSeen === isSeen) last.text += text;
    else found.push({ text, isSeen });
  }
  return found;
}

function split(text: string): string[] {
  return text.match(/[^\n.!?]*[\n.!?]+\s*|[^\n.!?]+$/g) ?? [];
}

function normal(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
