/** Filtering and sorting the table of candidates. */

import type { Decision, Outcome } from "../api/types";
import { type Place, plural, score, whole } from "./format";

export type Column =
  | "position" | "outcome" | "item" | "kind" | "pool" | "reason"
  | "score" | "priority" | "importance" | "relevance" | "recency"
  | "tokens" | "rank";

export interface Filter {
  text: string;
  outcome: string;
  kind: string;
  pool: string;
}

export interface Order {
  column: Column;
  down: boolean;
}

export const NO_FILTER: Filter = { text: "", outcome: "", kind: "", pool: "" };

const OUTCOMES: Outcome[] = ["kept", "shrunk", "replaced", "duplicate", "dropped"];
const LAST = Number.MAX_SAFE_INTEGER;

export function included(decision: { outcome: Outcome | null }): boolean {
  return decision.outcome === "kept" || decision.outcome === "shrunk";
}

/** The tokens that a candidate takes in the window, with its label or role; if it was left out, those of its text. */
export function charged(decision: Decision): number {
  return included(decision) ? decision.cost : decision.tokens;
}

/** Apply a filter. All words must occur in the id, excerpt, kind or reason. */
export function filtered(decisions: readonly Decision[], filter: Filter): Decision[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return decisions.filter((each) => {
    if (filter.outcome === "in" && !included(each)) return false;
    if (filter.outcome === "out" && each.outcome !== "dropped") return false;
    if (OUTCOMES.includes(filter.outcome as Outcome) && each.outcome !== filter.outcome) return false;
    if (filter.kind && each.kind !== filter.kind) return false;
    if (filter.pool && each.pool !== filter.pool) return false;
    if (words.length === 0) return true;
    const hay = `${each.id}\n${each.excerpt}\n${each.kind}\n${each.reason}`.toLowerCase();
    return words.every((word) => hay.includes(word));
  });
}

function key(decision: Decision, column: Column): number | string {
  switch (column) {
    case "position":
      return decision.position ?? LAST;
    case "outcome":
      return OUTCOMES.indexOf(decision.outcome);
    case "item":
      return decision.excerpt || decision.id;
    case "kind":
    case "pool":
    case "reason":
      return decision[column];
    case "score":
      return decision.score?.total ?? -1;
    case "priority":
    case "importance":
    case "relevance":
    case "recency":
      return decision.score?.[column] ?? -1;
    case "tokens":
      return charged(decision);
    case "rank":
      return decision.rank || LAST;
  }
}

const ALWAYS = new Set<Column>(["outcome", "item", "tokens"]);

/** What a column shows, rounded as there; empty if it shows nothing. */
function shown(decision: Decision, column: Column): string {
  if (column === "position") return decision.position === null ? "" : String(decision.position);
  if (column === "rank") return decision.rank === 0 ? "" : String(decision.rank);
  const value = key(decision, column);
  return typeof value === "string" ? value : decision.score === null ? "" : score(value);
}

/** Whether a column tells candidates apart, or they are sorted or filtered by it. In others, all have the same value or none. */
export function isUseful(column: Column, decisions: readonly Decision[], order: Order, filter: Filter): boolean {
  if (ALWAYS.has(column) || order.column === column) return true;
  if ((column === "kind" || column === "pool") && filter[column]) return true;
  return new Set(decisions.map((each) => shown(each, column)).filter(Boolean)).size > 1;
}

/** Sort by a column; the sort is stable. */
export function sorted(decisions: readonly Decision[], { column, down }: Order): Decision[] {
  const keyed = decisions.map((decision) => ({ decision, key: key(decision, column) }));
  const sign = down ? -1 : 1;
  keyed.sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return keyed.map((each) => each.decision);
}

/** Count the values of a field, most frequent first. */
export function countBy(decisions: readonly Decision[], field: "kind" | "pool" | "outcome"): [string, number][] {
  const counts = new Map<string, number>();
  for (const each of decisions) counts.set(each[field], (counts.get(each[field]) ?? 0) + 1);
  return [...counts].filter(([name]) => name !== "").sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

const STANDING = new Set(["system", "current", "format", "notes"]); // in every context, so no answer depends on them alone

/** Whether a candidate is a line in the ledger of an agent's steps. */
export function isLine({ outcome, reason }: { outcome: Outcome | null; reason: string }): boolean {
  return outcome === "replaced" && reason === "ledger";
}

/** The place of a candidate in the order of its pool. */
export function placeOf({ pool, rank, cut }: Decision, decisions: readonly Decision[]): Place {
  return { rank, total: decisions.filter((each) => each.pool === pool && each.rank > 0).length, cut };
}

/** What is said if nothing was left out: some candidates may be lines of the ledger only. */
export function nothingLeftOut(decisions: readonly Decision[]): string {
  const [whole, lines] = [decisions.filter(included).length, decisions.filter(isLine).length];
  return lines === 0 ? "Every candidate was included." : `Nothing was left out, but only ${plural(whole, "candidate")} ${whole === 1 ? "is" : "are"} whole: the model sees ${plural(lines, "other")} as one line each.`;
}

/** How many of `all` were included, lines, left out, duplicates, summarized, or not loaded: "166 included, 249 left out, 8 duplicates". */
export function outcomes(decisions: readonly Decision[], all: number): string {
  const count = (outcome: Outcome) => decisions.filter((each) => each.outcome === outcome).length;
  const lines = decisions.filter(isLine).length;
  const [duplicates, summarized, unread] = [count("duplicate"), count("replaced") - lines, all - decisions.length];
  return [
    `${whole(decisions.filter(included).length)} included`,
    ...(lines > 0 ? [`${whole(lines)} as one line each`] : []),
    `${whole(count("dropped"))} left out`,
    ...(duplicates > 0 ? [plural(duplicates, "duplicate")] : []),
    ...(summarized > 0 ? [`${whole(summarized)} in a summary`] : []),
    ...(unread > 0 ? [`${whole(unread)} older messages not loaded`] : []),
  ].join(", ");
}

/** The question that a context was built for. */
export function questionOf(decisions: readonly Decision[]): Decision | undefined {
  return decisions.find((each) => each.component === "current" && each.excerpt);
}

/** What the model saw for this answer: the included candidates, the most relevant first. */
export function basis(decisions: readonly Decision[]): Decision[] {
  return byRelevance(decisions.filter((each) => included(each) && !STANDING.has(each.component)));
}

/** What was left out, the most relevant first. What is covered by a duplicate or a summary was not left out. */
export function leftOut(decisions: readonly Decision[]): Decision[] {
  return byRelevance(decisions.filter((each) => each.outcome === "dropped"));
}

const UNRATED = 0.05; // nobody searched for it, so it comes after what is likely to help
const PINNED = 0.06;

/** The relevance of a candidate; null if no search rated it, which the server writes as one half. A tool's is no probability. */
export function rating({ component, kind, score }: Decision): number | null {
  return score === null || score.relevance === 0.5 || component === "pinned" || kind === "tool-definition" ? null : score.relevance;
}

function byRelevance(decisions: Decision[]): Decision[] {
  const key = (each: Decision) => rating(each) ?? (each.component === "pinned" ? PINNED : UNRATED);
  return decisions.sort((a, b) => key(b) - key(a) || (b.score?.total ?? 0) - (a.score?.total ?? 0) || b.at - a.at);
}
