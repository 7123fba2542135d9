import { describe, expect, it } from "vitest";

import type { Decision } from "../src/api/types";
import { byDay, isDay } from "../src/logic/days";

const NOON = new Date(2026, 10, 17, 12).getTime() / 1000; // a Tuesday
const item = (id: string, at: number) => ({ id, at, cost: 10 }) as Decision;
const many = (count: number, at: number) => Array.from({ length: count }, (_, n) => item(`${at}-${n}`, at + n));

describe("messages by day", () => {
  it("are grouped if there are many, in their order", () => {
    const groups = byDay([...many(20, NOON), ...many(15, NOON + 86_400)]);
    expect(groups.map((each) => isDay(each) && [each.name, each.items.length, each.tokens])).toEqual([
      ["Tuesday 17 Nov 2026", 20, 200], ["Wednesday 18 Nov 2026", 15, 150],
    ]);
  });
  it("stay single if they are few, or all of one day", () => {
    const few = [...many(15, NOON), ...many(15, NOON + 86_400)];
    expect(byDay(few)).toEqual(few);
    expect(byDay(many(99, NOON))).toHaveLength(99);
  });
  it("stay single if they are alone or have no time", () => {
    const groups = byDay([...many(30, NOON), item("alone", NOON - 86_400), item("a", 0), item("b", 0)]);
    expect(groups.map((each) => (isDay(each) ? each.items.length : each.id))).toEqual([30, "alone", "a", "b"]);
  });
});
