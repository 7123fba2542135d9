/** Squarified treemap: areas are proportional to weights, and cells are as square as possible. */

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Cell<T> extends Box {
  value: T;
  weight: number;
}

interface Weighed<T> {
  value: T;
  weight: number;
}

/** Divide a box among values by weight. Values without weight get no cell. */
export function treemap<T>(values: readonly T[], weigh: (value: T) => number, box: Box): Cell<T>[] {
  const rows = values
    .map((value) => ({ value, weight: weigh(value) }))
    .filter((each) => each.weight > 0)
    .sort((a, b) => b.weight - a.weight);
  const total = rows.reduce((sum, each) => sum + each.weight, 0);
  if (total === 0 || box.width <= 0 || box.height <= 0) return [];
  const scale = (box.width * box.height) / total;
  const cells: Cell<T>[] = [];
  let rest = box;
  let from = 0;
  while (from < rows.length) {
    const to = rowEnd(rows, from, Math.min(rest.width, rest.height), scale);
    rest = layRow(rows.slice(from, to), rest, scale, cells);
    from = to;
  }
  return cells;
}

/** The end of the next row: add values while the worst aspect ratio improves. */
function rowEnd<T>(rows: Weighed<T>[], from: number, side: number, scale: number): number {
  let sum = 0;
  let best = Infinity;
  let to = from;
  for (; to < rows.length; to++) {
    const weight = rows[to]?.weight ?? 0;
    const next = worst(sum + weight, rows[from]?.weight ?? 0, weight, side, scale);
    if (next > best) break;
    best = next;
    sum += weight;
  }
  return Math.max(to, from + 1);
}

function worst(sum: number, largest: number, smallest: number, side: number, scale: number): number {
  const area = sum * scale;
  const square = side * side;
  return Math.max((square * largest * scale) / (area * area), (area * area) / (square * smallest * scale));
}

/** Lay out a row along the shorter side and return the rest of the box. */
function layRow<T>(row: Weighed<T>[], box: Box, scale: number, cells: Cell<T>[]): Box {
  const sum = row.reduce((total, each) => total + each.weight, 0);
  const upright = box.width >= box.height;
  const thickness = (sum * scale) / (upright ? box.height : box.width);
  let along = upright ? box.y : box.x;
  for (const { value, weight } of row) {
    const length = (weight * scale) / thickness;
    cells.push(
      upright
        ? { value, weight, x: box.x, y: along, width: thickness, height: length }
        : { value, weight, x: along, y: box.y, width: length, height: thickness },
    );
    along += length;
  }
  return upright
    ? { x: box.x + thickness, y: box.y, width: Math.max(0, box.width - thickness), height: box.height }
    : { x: box.x, y: box.y + thickness, width: box.width, height: Math.max(0, box.height - thickness) };
}

/** The adjacent cell in the direction of an arrow key; -1 if there is none. */
export function neighbour(cells: readonly Box[], from: number, key: string): number {
  const here = cells[from];
  if (here === undefined) return -1;
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [0, 0];
  let found = -1;
  let nearest = Infinity;
  cells.forEach((cell, index) => {
    const x = cell.x + cell.width / 2 - (here.x + here.width / 2);
    const y = cell.y + cell.height / 2 - (here.y + here.height / 2);
    const ahead = x * (dx ?? 0) + y * (dy ?? 0);
    if (index === from || ahead <= 0.5) return;
    const distance = ahead + 3 * Math.abs(x * (dy ?? 0) + y * (dx ?? 0));
    if (distance < nearest) [nearest, found] = [distance, index];
  });
  return found;
}
