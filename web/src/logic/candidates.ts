/** Filtering and sorting the table of candidates. */

import type { Decision, Outcome } from "../api/types";

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

/** Apply a filter. All words must occur in the id, excerpt, kind or reason. */
export function filtered(decisions: readonly Decision[], filter: Filter): Decision[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return decisions.filter((each) => {
    if (filter.outcome === "in" && !included(each)) return false;
    if (filter.outcome === "out" && included(each)) return false;
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
      return decision.tokens;
    case "rank":
      return decision.rank || LAST;
  }
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

/**
 * Return the candidates that came closest to being included, alternating between pools: first those above the cut that did
 * not fit, then those with the fewest ranks below it. Those that are not worth their tokens would not be included in any window.
 */
export function nearMisses(decisions: readonly Decision[], limit: number): Decision[] {
  const pools = new Map<string, Decision[]>();
  for (const each of decisions) {
    if (!included(each) && !isPriced(each) && each.rank > 0) pools.set(each.pool, [...(pools.get(each.pool) ?? []), each]);
  }
  const lists = [...pools.values()].map((list) => list.sort((a, b) => a.rank - b.rank));
  lists.sort((a, b) => gap(a[0]) - gap(b[0]));
  const turns = Math.max(0, ...lists.map((list) => list.length));
  const found: Decision[] = [];
  for (let turn = 0; turn < turns && found.length < limit; turn++) {
    for (const list of lists) found.push(...list.slice(turn, turn + 1));
  }
  return found.slice(0, limit);
}

/** Whether it was left out because of the price of its tokens. */
export function isPriced(decision: Decision): boolean {
  return decision.reason === "not-worth";
}

/** How many ranks a candidate is below the cut of its pool; 0 or less if above. */
export function gap(decision: Decision | undefined): number {
  return decision ? decision.rank - decision.cut : Infinity;
}
