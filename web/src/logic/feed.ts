/** The live list of contexts. */

import type { ContextRow } from "../api/types";

export interface ContextFilter {
  room: string;
  persona: string;
  model: string;
  user: string;
  feedback: string;
}

export function matches(row: ContextRow, filter: ContextFilter): boolean {
  return (
    (!filter.room || row.room === filter.room) &&
    (!filter.persona || row.persona === filter.persona) &&
    (!filter.model || row.model === filter.model) &&
    (!filter.user || row.user === filter.user) &&
    (!filter.feedback || row.feedback?.rating === filter.feedback)
  );
}

/** Merge two lists, newest first, up to `limit` rows: of each run, only its newest context. */
export function mergeRows(rows: readonly ContextRow[], more: readonly ContextRow[], limit = 500): ContextRow[] {
  const byRun = new Map<string, ContextRow>();
  for (const row of [...rows, ...more]) {
    const run = row.run?.id ?? row.id;
    if (row.number >= (byRun.get(run)?.number ?? 0)) byRun.set(run, row);
  }
  return [...byRun.values()].sort((a, b) => b.number - a.number).slice(0, limit);
}
