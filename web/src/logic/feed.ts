/** The list of what happens now: new contexts come to the front, each once. */

import type { ContextRow } from "../api/types";

export interface Wanted {
  room: string;
  persona: string;
  model: string;
}

export function wanted(row: ContextRow, filter: Wanted): boolean {
  return (
    (!filter.room || row.room === filter.room) &&
    (!filter.persona || row.persona === filter.persona) &&
    (!filter.model || row.model === filter.model)
  );
}

/** Put rows into a list, newest first, each once, and no more than `most`. */
export function merged(rows: readonly ContextRow[], more: readonly ContextRow[], most = 500): ContextRow[] {
  const byId = new Map<string, ContextRow>();
  for (const row of [...rows, ...more]) byId.set(row.id, row);
  return [...byId.values()].sort((a, b) => b.number - a.number).slice(0, most);
}
