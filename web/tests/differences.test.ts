import { describe, expect, it } from "vitest";

import type { Change } from "../src/api/types";
import { type ChangeOrder, componentOfKind, groupChanges, sumTokens } from "../src/logic/differences";

const change = (id: string, kind: string, tokens: number, relevance: number | null = null): Change => ({
  id, kind, tokens, relevance, excerpt: id, before: "kept", after: null, before_reason: "fits", after_reason: null, before_form: "full", after_form: null,
});
const CHANGES = [
  change("m1", "memory-semantic", 10, 0.2), change("m2", "memory-episodic", 30, 0.1), change("r1", "message-recent", 500),
  change("r2", "message-recent", 700), change("l1", "lorebook", 20, 0.9),
];

describe("changes", () => {
  const grouped = (order: ChangeOrder, changes = CHANGES) =>
    groupChanges(changes, order, sumTokens(changes), (each) => componentOfKind(each.kind)).map(({ component, tokens, changes: inside, isLarge }) => (
      [component, tokens, inside.map((each) => each.id).join(" "), isLarge]
    ));

  it("are grouped by kind, the most tokens first", () => {
    expect(grouped("tokens")).toEqual([["recent", 1200, "r2 r1", true], ["memories", 40, "m2 m1", false], ["lorebook", 20, "l1", false]]);
  });
  it("are grouped by kind, the most relevant first, and what was not rated last", () => {
    expect(grouped("relevance")).toEqual([["lorebook", 20, "l1", false], ["memories", 40, "m1 m2", false], ["recent", 1200, "r2 r1", true]]);
  });
  it("are large by their share of all changes", () => {
    const many = [...CHANGES, ...Array.from({ length: 9 }, (_, n) => change(`n${n}`, "message-older", 50))];
    expect(grouped("tokens", many).map(([component, , , isLarge]) => [component, isLarge])).toEqual([
      ["recent", true], ["older", true], ["memories", false], ["lorebook", false],
    ]);
  });
});
