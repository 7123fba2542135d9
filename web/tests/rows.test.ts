import { describe, expect, it } from "vitest";

import { nextRow, visibleRows } from "../src/logic/rows";

describe("visible rows", () => {
  it.each([
    [0, 400, 5000, { from: 0, to: 18 }],
    [4000, 400, 5000, { from: 92, to: 118 }],
    [199_700, 400, 5000, { from: 4984, to: 5000 }],
    [9_000, 400, 3, { from: 0, to: 3 }],
    [0, 400, 0, { from: 0, to: 0 }],
  ])("at %d of a list of %d px", (top, height, count, range) => {
    expect(visibleRows(top, height, 40, count)).toEqual(range);
  });
});

describe("keys in a list of ten", () => {
  it.each([["ArrowDown", 9, 9], ["ArrowDown", 3, 4], ["ArrowUp", 0, 0], ["PageDown", 3, 8], ["PageUp", 3, 0], ["Home", 5, 0], ["End", 5, 9], ["a", 5, null]])("%s at %d", (key, at, to) => {
    expect(nextRow(key, at, 10, 5)).toBe(to);
  });
});
