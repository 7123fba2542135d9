/** Sessions of coding agents: their window as a stacked chart, and their cache misses by cause. */

import type { Category, Miss, Turn } from "../api/sessions";
import { percent, plural, whole } from "./format";

export type Part = Category | "unseen";

/** What a window is made of, from the bottom of the chart to its top: title and look. */
export const PARTS: Record<Part, { title: string; look: string }> = {
  system: { title: "System prompt", look: "c-system" },
  tools: { title: "Tool definitions", look: "c-tools" },
  unseen: { title: "Not in the file", look: "c-margin" },
  summary: { title: "Summary", look: "c-summaries" },
  user: { title: "User", look: "c-current" },
  assistant: { title: "Assistant", look: "c-recent" },
  thinking: { title: "Thinking", look: "c-memories" },
  files: { title: "Files read", look: "c-lorebook" },
  results: { title: "Tool results", look: "c-older" },
};

const ORDER = Object.keys(PARTS) as Part[];

export function tokensOf(turn: Turn, part: Part): number {
  return part === "unseen" ? turn.unseen : turn.tokens[part];
}

/** The parts that any of the requests has, from the bottom up. */
export function usedParts(turns: readonly Turn[]): Part[] {
  return ORDER.filter((part) => turns.some((turn) => tokensOf(turn, part) > 0));
}

/** The tokens of a request that the chart draws: those of all its parts. */
export function total(turn: Turn): number {
  return ORDER.reduce((sum, part) => sum + tokensOf(turn, part), 0);
}

export const MAX_COLUMNS = 400; // more are finer than the pixels of a screen
const GAPS = 80; // columns; between more, there is no gap

/** Every request, or of many the evenly spaced ones that are drawn. */
export function columnsOf(turns: readonly Turn[]): Turn[] {
  const step = Math.ceil(turns.length / MAX_COLUMNS);
  return turns.filter((_, index) => (turns.length - 1 - index) % Math.max(1, step) === 0);
}

/**
 * The outline of each part as a CSS polygon in percent, the topmost first. Each one reaches down to the axis, so that the
 * next one covers its lower end and no seam shows.
 */
export function outlines(columns: readonly Turn[], parts: readonly Part[], largest: number): [Part, string][] {
  const width = 100 / Math.max(1, columns.length);
  const gap = columns.length > GAPS ? 0 : width * 0.09;
  const round = (value: number) => Math.round(value * 1000) / 1000;
  return [...parts].reverse().map((part) => {
    const below = parts.slice(0, parts.indexOf(part) + 1);
    const points = columns.flatMap((turn, index) => {
      const sum = below.reduce((tokens, name) => tokens + tokensOf(turn, name), 0);
      const [left, right, top] = [round(index * width + gap), round((index + 1) * width - gap), round(100 - (100 * sum) / Math.max(1, largest))];
      return [`${left}% 100%`, `${left}% ${top}%`, `${right}% ${top}%`, `${right}% 100%`];
    });
    return [part, `polygon(${points.join(", ")})`];
  });
}

/** The index of the column that draws a request: the first one from it on. */
export function columnOf(columns: readonly Turn[], number: number): number {
  const after = columns.findIndex((turn) => turn.number >= number);
  return after < 0 ? columns.length - 1 : after;
}

const CAUSES: Record<string, string> = {
  model_changed: "Another model",
  compaction: "A compaction",
  tools_changed: "Tool definitions changed",
  tools_reordered: "Tool definitions in another order",
  system_prompt_changed: "System prompt changed",
  messages_rewritten: "An earlier message changed",
  trimmed: "The oldest messages were left out",
  ttl_expired_5m: "Idle for more than 5 minutes",
  ttl_expired_1h: "Idle for more than an hour",
  likely_server_side: "Dropped by the provider",
  unknown: "Unknown cause",
};

export function causeTitle(cause: string): string {
  return CAUSES[cause] ?? cause.replaceAll("_", " ");
}

/** US dollars to a hundredth of a cent, so that sums can be checked; a dash if the price is not known. */
export function dollars(value: number | null): string {
  return value === null ? "–" : `$${value.toFixed(4)}`;
}

export interface MissGroup {
  cause: string;
  advice: string;
  misses: Miss[];
  tokens: number;
  /** Null if no price is known. */
  cost: number | null;
}

/** Misses by cause, those that read most tokens again first. */
export function byCause(misses: readonly Miss[]): MissGroup[] {
  const groups = new Map<string, MissGroup>();
  for (const miss of misses) {
    const group = groups.get(miss.cause) ?? { cause: miss.cause, advice: miss.advice, misses: [], tokens: 0, cost: null };
    group.misses.push(miss);
    group.tokens += miss.tokens;
    group.cost = miss.cost === null ? group.cost : (group.cost ?? 0) + miss.cost;
    groups.set(miss.cause, group);
  }
  return [...groups.values()].sort((a, b) => b.tokens - a.tokens);
}

/** A request in words, for the slider: "Request 12 of 214: 26,073 tokens, 86 % from the cache". */
export function describeTurn(turn: Turn, requests: number): string {
  return `Request ${whole(turn.number)} of ${whole(requests)}: ${plural(turn.prompt, "token")}, ${cachedText(turn)}`;
}

export function cachedText({ prompt, read }: { prompt: number; read: number }): string {
  return prompt > 0 ? `${percent(read / prompt)} from the cache` : "usage not in the file";
}

/** Programs by the names that they give themselves. */
export const PROGRAMS: Record<string, string> = {
  "claude-code": "Claude Code", codex: "Codex", opencode: "opencode", hermes: "Hermes", "gemini-cli": "Gemini CLI", "qwen-code": "Qwen Code",
};
