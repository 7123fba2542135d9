/** Virtual scrolling: only visible rows are drawn. */

export interface Range {
  from: number;
  to: number;
}

/** The rows to draw, with a few more on both sides to avoid gaps while scrolling. */
export function visibleRows(top: number, height: number, rowHeight: number, count: number, more = 8): Range {
  const from = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - more);
  const to = Math.min(count, Math.ceil((top + height) / rowHeight) + more);
  return { from: Math.min(from, to), to };
}

/** The row that a key moves to; null for other keys. */
export function nextRow(key: string, at: number, count: number, page: number): number | null {
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
