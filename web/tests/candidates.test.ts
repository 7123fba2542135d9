import { describe, expect, it } from "vitest";

import type { Decision } from "../src/api/types";
import { basis, filtered, isUseful, leftOut, NO_FILTER, sorted, countBy } from "../src/logic/candidates";

function decision(id: string, more: Partial<Decision> = {}): Decision {
  return {
    id, kind: "memory-semantic", component: "memories", outcome: "kept", reason: "fits", tokens: 10, cost: 12, pool: "related",
    score: null, rank: 0, cut: 0, by: "", group: "", why: "", excerpt: `text of ${id}`, at: 0, position: null,
    form: "full", larger: 0, smaller: 0, size: 10, ...more,
  };
}

const scores = (total: number) => ({ total, priority: 0, importance: 0, relevance: 0, recency: 0 });
const ids = (all: Decision[]) => all.map((each) => each.id);

describe("candidates", () => {
  const all = [
    decision("a", { position: 2, tokens: 30, score: scores(0.2) }),
    decision("b", { outcome: "dropped", reason: "pool-full", rank: 7, cut: 4, score: scores(0.1), tokens: 5 }),
    decision("c", { outcome: "shrunk", kind: "message-recent", pool: "recent", position: 0, score: scores(0.9) }),
    decision("d", { outcome: "dropped", rank: 5, cut: 4, score: scores(0.05), excerpt: "The Refund of Ada" }),
    decision("e", { outcome: "dropped", rank: 5, cut: 4, score: scores(0.4) }),
    decision("f", { outcome: "duplicate", by: "a" }),
  ];
  it("have the columns that tell them apart, and those by which they are sorted or filtered", () => {
    const order = { column: "position", down: false } as const;
    const useful = (column: Parameters<typeof isUseful>[0], by = order, filter = NO_FILTER, of = all) => isUseful(column, of, by, filter);
    expect((["position", "outcome", "kind", "pool", "reason", "score", "tokens", "rank"] as const).every((each) => useful(each))).toBe(true);
    expect((["priority", "importance", "relevance", "recency"] as const).some((each) => useful(each))).toBe(false);
    expect(isUseful("priority", all, { column: "priority", down: true }, NO_FILTER)).toBe(true);
    const alike = [decision("a", { rank: 3 }), decision("b"), decision("c", { pool: "" })];
    expect((["position", "kind", "pool", "reason", "score", "rank"] as const).some((each) => isUseful(each, alike, { column: "tokens", down: false }, NO_FILTER))).toBe(false);
    expect(isUseful("pool", alike, order, { ...NO_FILTER, pool: "related" })).toBe(true);
    const close = [decision("a", { score: scores(0.501) }), decision("b", { score: scores(0.504) })];
    expect(isUseful("score", close, order, NO_FILTER)).toBe(false); // both are shown as 0.50
  });
  it("are filtered by outcome, kind, pool and words", () => {
    expect(ids(filtered(all, { ...NO_FILTER, outcome: "in" }))).toEqual(["a", "c"]);
    expect(ids(filtered(all, { ...NO_FILTER, outcome: "out" }))).toEqual(["b", "d", "e"]);
    expect(ids(filtered(all, { ...NO_FILTER, outcome: "duplicate" }))).toEqual(["f"]);
    expect(ids(filtered(all, { ...NO_FILTER, kind: "message-recent" }))).toEqual(["c"]);
    expect(ids(filtered(all, { ...NO_FILTER, pool: "recent" }))).toEqual(["c"]);
    expect(ids(filtered(all, { ...NO_FILTER, text: "  ada REFUND " }))).toEqual(["d"]);
    expect(ids(filtered(all, { ...NO_FILTER, text: "pool-full" }))).toEqual(["b"]);
    expect(filtered(all, NO_FILTER)).toEqual(all);
  });
  it("are sorted by any column, and what has no place comes last", () => {
    expect(ids(sorted(all, { column: "position", down: false })).slice(0, 2)).toEqual(["c", "a"]);
    expect(ids(sorted(all, { column: "score", down: true })).slice(0, 3)).toEqual(["c", "e", "a"]);
    expect(ids(sorted(all, { column: "tokens", down: false }))[0]).toBe("b");
    expect(ids(sorted(all, { column: "kind", down: false }))).toEqual(["a", "b", "d", "e", "f", "c"]);
    expect(ids(sorted(all, { column: "rank", down: false })).slice(0, 3)).toEqual(["d", "e", "b"]);
  });
  it("tell what the model saw and did not see for an answer, the most relevant first", () => {
    const relevant = (id: string, relevance: number, more: Partial<Decision>) => decision(id, { score: { ...scores(0), relevance }, ...more });
    const some = [
      relevant("low", 0.1, {}), relevant("high", 0.9, { outcome: "shrunk" }), relevant("now", 1, { component: "current" }),
      relevant("out", 0.2, { outcome: "dropped" }), relevant("far", 0.1, { outcome: "dropped" }), relevant("same", 0.5, { outcome: "duplicate" }),
      relevant("pin", 0.5, { component: "pinned" }), decision("unrated"), decision("unrated-out", { outcome: "dropped" }),
    ];
    expect(ids(basis(some))).toEqual(["high", "low", "pin", "unrated"]);
    expect(ids(leftOut(some))).toEqual(["out", "far", "unrated-out"]);
  });
  it("are told apart by kind", () => {
    expect(countBy(all, "kind")).toEqual([["memory-semantic", 5], ["message-recent", 1]]);
  });
  it("are filtered and sorted quickly, many as they are", () => {
    const many = Array.from({ length: 50_000 }, (_, n) => decision(`m${n}`, { tokens: (n * 7919) % 1000 }));
    expect(sorted(filtered(many, { ...NO_FILTER, text: "m49" }), { column: "tokens", down: true })).toHaveLength(1111);
  });
});
