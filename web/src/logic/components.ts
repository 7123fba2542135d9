/** The parts of a window: how they are called, in which order they stand, and what they look like. */

import type { Band, ContextRow } from "../api/types";

const TITLES: Record<string, string> = {
  system: "System prompt",
  pinned: "Pinned",
  summaries: "Summaries",
  recent: "Recent messages",
  tools: "Tool turns",
  lorebook: "Lorebook",
  memories: "Memories",
  older: "Older messages",
  notes: "Notes",
  media: "Media",
  current: "Current message",
  format: "Format & tools",
  free: "Free",
  margin: "Safety reserve",
  capped: "Beyond the limit",
  completion: "Kept for the answer",
};

const ORDER = Object.keys(TITLES);

/** What is not filled: it is room, and no content. */
export const ROOM = new Set(["free", "margin", "capped", "completion"]);

export function title(name: string): string {
  const known = TITLES[name];
  if (known !== undefined) return known;
  const words = name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The CSS class with colour and pattern. A kind of the user's own gets one of four, always the same. */
export function look(name: string): string {
  if (name in TITLES) return `c-${name}`;
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 997;
  return `c-own${sum % 4}`;
}

/** Where a part stands; kinds that nobody knows stand with what was retrieved. */
function place(name: string): number {
  const at = ORDER.indexOf(name);
  return at < 0 ? ORDER.indexOf("notes") - 0.5 : at;
}

/** Parts in the one order in which every picture has them. */
export function inOrder<T extends { name: string }>(parts: readonly T[]): T[] {
  return [...parts].sort((a, b) => place(a.name) - place(b.name));
}

/** The bands of a row of the list: its components, and the room that is left, in one order for all rows. */
export function bandsOf(row: ContextRow): Band[] {
  const filled = inOrder(row.components)
    .filter((part) => part.tokens > 0)
    .map((part) => ({ ...part, title: title(part.name) }));
  const used = filled.reduce((sum, part) => sum + part.tokens, 0);
  const free = Math.max(0, row.available - used);
  const margin = Math.max(0, row.window - row.completion - Math.max(row.available, used));
  const room = { free, margin, completion: Math.max(0, row.window - used - free - margin) };
  for (const [name, tokens] of Object.entries(room)) {
    if (tokens > 0) filled.push({ name, title: title(name), tokens, items: 0 });
  }
  return filled;
}

/** What a picture says to somebody who does not see it. */
export function described(bands: Band[], window: number): string {
  const parts = bands
    .filter((band) => band.tokens > 0)
    .map((band) => `${title(band.name)} ${Math.round((band.tokens / Math.max(1, window)) * 1000) / 10} %`);
  return `Window of ${window.toLocaleString("en")} tokens: ${parts.join(", ")}`;
}
