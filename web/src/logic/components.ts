/** The parts of a window: titles, order and appearance. */

import type { Band, ContextRow, ContextView } from "../api/types";
import { whole } from "./format";

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
  margin: "Safety margin",
  capped: "Above the limit",
  completion: "Reserved for the answer",
};

const ORDER = Object.keys(TITLES);

/** Parts without content. */
export const UNUSED = new Set(["free", "margin", "capped", "completion"]);

export function title(name: string): string {
  const known = TITLES[name];
  if (known !== undefined) return known;
  const words = name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The CSS class with color and pattern. Custom kinds get one of four, always the same. */
export function look(name: string): string {
  if (name in TITLES) return `c-${name}`;
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 997;
  return `c-own${sum % 4}`;
}

/** The position of a part; custom kinds come after retrieved content. */
function position(name: string): number {
  const at = ORDER.indexOf(name);
  return at < 0 ? ORDER.indexOf("notes") - 0.5 : at;
}

/** Sort parts in the order used by all pictures. */
export function inDisplayOrder<T extends { name: string }>(parts: readonly T[]): T[] {
  return [...parts].sort((a, b) => position(a.name) - position(b.name));
}

/** The bands of a context in the list: its components and the unused space. */
export function rowBands(row: ContextRow): Band[] {
  const filled = inDisplayOrder(row.components)
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

type Budget = Pick<ContextView, "window" | "available" | "tokens" | "bands">;

/** How the parts of a window add up: "Window of 8,192 tokens = 4,305 used + 1,799 free + 40 safety margin + …". */
export function windowSum({ window, tokens, bands }: Budget): string {
  const unused = bands.filter((band) => UNUSED.has(band.name) && band.tokens > 0);
  const rest = unused.map((band) => `${whole(band.tokens)} ${SUM_NAMES[band.name] ?? title(band.name)}`);
  return `Window of ${whole(window)} tokens = ${[`${whole(tokens)} used`, ...rest].join(" + ")}.`;
}

const SUM_NAMES: Record<string, string> = {
  free: "free", margin: "safety margin", capped: "above the limit of a prompt", completion: "reserved for the answer",
};

/** Text alternative of the window bar. */
export function describeWindow(bands: Band[], window: number): string {
  const parts = bands
    .filter((band) => band.tokens > 0)
    .map((band) => `${title(band.name)} ${Math.round((band.tokens / Math.max(1, window)) * 1000) / 10}\u00a0%`);
  return `Window of ${window.toLocaleString("en")} tokens: ${parts.join(", ")}`;
}
