import { describe, expect, it } from "vitest";

import type { Miss, Turn } from "../src/api/sessions";
import { byCause, cachedText, causeTitle, columnOf, columnsOf, describeTurn, dollars, MAX_COLUMNS, outlines, total, usedParts } from "../src/logic/sessions";

const NONE = { system: 0, tools: 0, files: 0, results: 0, user: 0, assistant: 0, thinking: 0, summary: 0 };
const turn = (number: number, tokens: Partial<Turn["tokens"]> = {}, more: Partial<Turn> = {}): Turn => ({
  number, at: number, model: "m", prompt: 100, read: 80, written: 0, output: 1, tokens: { ...NONE, ...tokens }, unseen: 0, compacted: false, ...more,
});
const miss = (cause: string, tokens: number, cost: number | null): Miss => (
  { turn: 1, at: 0, model: "m", cause, tokens, idle: 1, cost, message: null, advice: `avoid ${cause}` }
);

describe("the stacked chart", () => {
  const turns = [turn(1, { system: 20, files: 30 }), turn(2, { system: 20, results: 80 })];
  it("has the parts that any request has, from the bottom up", () => {
    expect(usedParts(turns)).toEqual(["system", "files", "results"]);
    expect(usedParts([turn(1, {}, { unseen: 5 })])).toEqual(["unseen"]);
  });
  it("draws each part down to the axis, the topmost first, so that no seam shows", () => {
    const drawn = outlines(turns, usedParts(turns), 100);
    expect(drawn.map(([part]) => part)).toEqual(["results", "files", "system"]);
    expect(drawn.map(([, polygon]) => [...polygon.matchAll(/([\d.]+)% ([\d.]+)%/g)].map((point) => Number(point[2])))).toEqual([
      [100, 50, 50, 100, 100, 0, 0, 100],
      [100, 50, 50, 100, 100, 80, 80, 100],
      [100, 80, 80, 100, 100, 80, 80, 100],
    ]);
  });
  it("adds up to all tokens of a request", () => {
    expect(total(turn(1, { user: 3, thinking: 4 }, { unseen: 5 }))).toBe(12);
  });
  it.each([1, 2, MAX_COLUMNS, MAX_COLUMNS + 1, 5 * MAX_COLUMNS])("draws at most so many columns of %i requests, the last one among them", (count) => {
    const all = Array.from({ length: count }, (_, index) => turn(index + 1));
    const columns = columnsOf(all);
    expect(columns.length).toBeLessThanOrEqual(MAX_COLUMNS);
    expect(columns.at(-1)).toBe(all.at(-1));
    expect(all.every((each) => columns[columnOf(columns, each.number)]!.number >= each.number)).toBe(true);
  });
  it("leaves no gap between many columns", () => {
    const many = Array.from({ length: 100 }, (_, index) => turn(index + 1, { user: 1 }));
    const [[, polygon] = ["", ""]] = outlines(many, ["user"], 1);
    expect(polygon).toContain("1% 100%, 1% 100%");
  });
  it("says a request in words", () => {
    expect(describeTurn(turn(2), 7)).toBe("Request 2 of 7: 100 tokens, 80\u00a0% from the cache");
    expect(cachedText({ prompt: 0, read: 0 })).toBe("usage not in the file");
  });
});

describe("cache misses", () => {
  it("are grouped by cause, the dearest first, with exact sums", () => {
    const groups = byCause([miss("compaction", 10, 0.01), miss("tools_changed", 50, null), miss("compaction", 20, 0.02)]);
    expect(groups.map((group) => [group.cause, group.tokens, group.cost, group.misses.length])).toEqual([
      ["tools_changed", 50, null, 1],
      ["compaction", 30, 0.03, 2],
    ]);
  });
  it("have causes in words, also new ones", () => {
    expect(causeTitle("ttl_expired_5m")).toBe("Idle for more than 5 minutes");
    expect(causeTitle("something_new")).toBe("something new");
  });
  it("cost dollars with four decimals", () => {
    expect([dollars(0.2228), dollars(0), dollars(null)]).toEqual(["$0.2228", "$0.0000", "–"]);
  });
});
