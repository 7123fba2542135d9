/** Long lists: only the rows that can be seen are drawn. */

export interface Range {
  from: number;
  to: number;
}

/** The rows to draw, with some more on both sides so that scrolling shows no gaps. */
export function visible(top: number, height: number, rowHeight: number, count: number, more = 8): Range {
  const from = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - more);
  const to = Math.min(count, Math.ceil((top + height) / rowHeight) + more);
  return { from: Math.min(from, to), to };
}

/** Where a key leads in a list of so many rows; null if it is no key of ours. */
export function moved(key: string, at: number, count: number, page: number): number | null {
  const last = count - 1;
  switch (key) {
    case "ArrowDown":
      return Math.min(last, at + 1);
    case "ArrowUp":
      return Math.max(0, at - 1);
    case "PageDown":
      return Math.min(last, at + page);
    case "PageUp":
      return Math.max(0, at - page);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}
