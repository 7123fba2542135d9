/** The live list of contexts. */

import type { ContextRow } from "../api/types";

export interface ContextFilter {
  room: string;
  persona: string;
  model: string;
  user: string;
}

export function matches(row: ContextRow, filter: ContextFilter): boolean {
  return (
    (!filter.room || row.room === filter.room) &&
    (!filter.persona || row.persona === filter.persona) &&
    (!filter.model || row.model === filter.model) &&
    (!filter.user || row.user === filter.user)
  );
}

/** Merge two lists, newest first, without duplicates, up to `limit` rows. */
export function mergeRows(rows: readonly ContextRow[], more: readonly ContextRow[], limit = 500): ContextRow[] {
  const byId = new Map<string, ContextRow>();
  for (const row of [...rows, ...more]) byId.set(row.id, row);
  return [...byId.values()].sort((a, b) => b.number - a.number).slice(0, limit);
}
