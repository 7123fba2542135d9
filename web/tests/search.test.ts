import { describe, expect, it } from "vitest";

import type { Hit } from "../src/api/types";
import { canSee } from "../src/logic/names";
import { hitGroups, hitPath } from "../src/logic/search";
import { nextStep } from "../src/logic/timeline";

const hit = (kind: Hit["kind"], id: string, more: Partial<Hit> = {}): Hit => ({ kind, id, title: "", excerpt: "", parent: "", at: 0, ...more });

describe("search results", () => {
  it("are grouped, and empty groups are left out", () => {
    const found = [hit("message", "m"), hit("memory", "a"), hit("memory", "b")];
    expect(hitGroups(found).map(([name, hits]) => [name, hits.map((each) => each.id)])).toEqual([["Memories", ["a", "b"]], ["Messages", ["m"]]]);
  });
  it("lead to their pages", () => {
    expect(hitPath(hit("context", "c/1"))).toBe("/contexts/c%2F1");
    expect(hitPath(hit("message", "m", { parent: "a b", excerpt: "Hello…" }))).toBe("/rooms/a%20b?q=Hello");
    expect(hitPath(hit("memory", "mem-1"))).toBe("/memories?id=mem-1");
    expect(hitPath(hit("lore", "e", { parent: "shop" }))).toBe("/lorebooks/shop?q=e");
    expect(hitPath(hit("room", "r"))).toBe("/rooms/r");
    expect(hitPath(hit("persona", "p"))).toBe("/personas/p");
  });
});

describe("a memory", () => {
  it("may be in contexts of whoever it belongs to", () => {
    const context = { persona: "nova", user: "ada", room: "kitchen" };
    expect(canSee(context, { persona: null, user: null, room: null })).toBe(true);
    expect(canSee(context, { persona: null, user: "ada", room: null })).toBe(true);
    expect(canSee(context, { persona: null, user: "bob", room: null })).toBe(false);
    expect(canSee(context, { persona: null, user: "ada", room: "garden" })).toBe(false);
  });
});

describe("a timeline", () => {
  it("is stepped through with arrow keys, and has ends", () => {
    expect([nextStep("ArrowRight", 1, 3), nextStep("ArrowRight", 2, 3), nextStep("ArrowLeft", 0, 3)]).toEqual([2, 2, 0]);
    expect([nextStep("Home", 2, 3), nextStep("End", 0, 3), nextStep("x", 0, 3)]).toEqual([0, 2, null]);
  });
});
