import { describe, expect, it } from "vitest";

import { type Box, neighbour, treemap } from "../src/logic/treemap";

const BOX = { x: 0, y: 0, width: 600, height: 400 };
const self = (weight: number) => weight;

function overlap(a: Box, b: Box): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return Math.max(0, width) * Math.max(0, height);
}

describe("a treemap", () => {
  it("gives each weight its share of the area", () => {
    const weights = Array.from({ length: 57 }, (_, n) => 1 + ((n * 37) % 101));
    const cells = treemap(weights, self, BOX);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    expect(cells).toHaveLength(57);
    for (const cell of cells) {
      expect(cell.width * cell.height).toBeCloseTo((cell.weight / total) * 240_000, 4);
      expect(cell.x + cell.width).toBeLessThanOrEqual(600.001);
      expect(cell.y + cell.height).toBeLessThanOrEqual(400.001);
    }
    for (const [at, cell] of cells.entries()) {
      for (const other of cells.slice(at + 1)) expect(overlap(cell, other)).toBeLessThan(0.01);
    }
  });
  it("keeps cells close to squares", () => {
    const cells = treemap([6, 6, 4, 3, 2, 2, 1], self, BOX);
    for (const { width, height } of cells) expect(Math.max(width / height, height / width)).toBeLessThan(3);
  });
  it("skips zero weights and empty boxes", () => {
    expect(treemap([0, 5, 0], self, BOX)).toHaveLength(1);
    expect(treemap([1], self, { ...BOX, width: 0 })).toEqual([]);
    expect(treemap([], self, BOX)).toEqual([]);
  });
});

describe("arrow keys in a treemap", () => {
  const grid = [0, 1, 2, 3].map((n) => ({ x: (n % 2) * 10, y: Math.floor(n / 2) * 10, width: 10, height: 10 }));
  it.each([["ArrowRight", 0, 1], ["ArrowDown", 0, 2], ["ArrowLeft", 3, 2], ["ArrowUp", 3, 1], ["ArrowLeft", 0, -1], ["x", 0, -1]])("%s from %d leads to %d", (key, from, to) => {
    expect(neighbour(grid, from, key)).toBe(to);
  });
  it("returns -1 without cells", () => expect(neighbour([], 0, "ArrowUp")).toBe(-1));
});
