import { describe, expect, it } from "vitest";

import type { ContextRow } from "../src/api/types";
import { rowBands, describeWindow, inDisplayOrder, look, title } from "../src/logic/components";
import { mergeRows, matches } from "../src/logic/feed";
import { fromStep, STEPS, timeRange, toStep } from "../src/logic/scale";
import { lines, messageText } from "../src/logic/text";

function row(number: number, more: Partial<ContextRow> = {}): ContextRow {
  return {
    number, id: `c${number}`, room: "support", room_name: "", persona: "nova", persona_name: "", user: null, message: null, at: number, model: "gpt-4o", policy: "default",
    tokens: 600, window: 1000, completion: 200, available: 750, candidates: 9, left_out: 2, lines: 0, run: null, warnings: [], degraded: [], question: "", answer: "", prompt: null, cached: null, expected_cached: null, cost: null, seconds: null, feedback: null, recorded: true,
    components: [
      { name: "recent", tokens: 400, items: 4 }, { name: "system", tokens: 150, items: 1 },
      { name: "scene", tokens: 50, items: 1 }, { name: "media", tokens: 0, items: 0 },
    ],
    ...more,
  };
}

describe("the window of a row", () => {
  it("is divided into bands that add up to it", () => {
    const bands = rowBands(row(1));
    expect(bands.map((band) => [band.name, band.tokens])).toEqual([
      ["system", 150], ["recent", 400], ["scene", 50], ["free", 150], ["margin", 50], ["completion", 200],
    ]);
    expect(bands.reduce((sum, band) => sum + band.tokens, 0)).toBe(1000);
  });
  it("has its parts in the order of the request, with custom kinds after retrieved content", () => {
    const order = ["system", "pinned", "summaries", "recent", "tools", "lorebook", "memories", "older", "scene", "notes", "media", "current", "format"];
    const parts = [...order].sort().map((name) => ({ name }));
    expect(inDisplayOrder(parts).map((part) => part.name)).toEqual(order);
  });
  it("adds up if the margin is used", () => {
    const full = row(1, { components: [{ name: "recent", tokens: 790, items: 4 }] });
    expect(rowBands(full).map((band) => [band.name, band.tokens])).toEqual([["recent", 790], ["margin", 10], ["completion", 200]]);
  });
  it("has a text alternative", () => {
    expect(describeWindow(rowBands(row(1)), 1000)).toBe(
      "Window of 1,000 tokens: System prompt 15\u00a0%, Recent messages 40\u00a0%, Scene 5\u00a0%, Free 15\u00a0%, Safety margin 5\u00a0%, Reserved for the answer 20\u00a0%",
    );
  });
  it("has a stable look for every name", () => {
    expect([look("recent"), title("my-own")]).toEqual(["c-recent", "My own"]);
    expect(look("scene")).toMatch(/^c-own[0-3]$/);
    expect(look("scene")).toBe(look("scene"));
  });
});

describe("the live list", () => {
  it("is sorted, without duplicates, and limited", () => {
    const rows = mergeRows([row(3), row(2)], [row(4), row(2, { tokens: 7 })]);
    expect(rows.map((each) => [each.number, each.tokens])).toEqual([[4, 600], [3, 600], [2, 7]]);
    expect(mergeRows([row(1), row(2)], [row(3)], 2).map((each) => each.number)).toEqual([3, 2]);
  });
  it("is filtered", () => {
    const none = { room: "", persona: "", model: "", user: "", feedback: "" };
    expect([none, { ...none, room: "support" }, { ...none, persona: "x" }, { ...none, model: "gpt-4" }].map((filter) => matches(row(1), filter))).toEqual([true, true, false, false]);
    const rated = row(1, { feedback: { rating: "bad", note: "", at: 1 } });
    expect([matches(rated, { ...none, feedback: "bad" }), matches(rated, { ...none, feedback: "good" }), matches(row(1), { ...none, feedback: "bad" })]).toEqual([true, false, false]);
  });
});

describe("a slider over windows", () => {
  it("is exact at both ends and round-trips", () => {
    expect([fromStep(0, 256, 2_097_152), fromStep(STEPS, 256, 2_097_152)]).toEqual([256, 2_097_152]);
    for (const step of [1, 250, 500, 999]) {
      expect(Math.abs(toStep(fromStep(step, 256, 2_097_152), 256, 2_097_152) - step)).toBeLessThanOrEqual(1);
    }
    expect([toStep(1, 256, 1024), toStep(9999, 256, 1024)]).toEqual([0, STEPS]);
  });
  it("is monotonic", () => {
    let before = 0;
    for (let step = 0; step <= STEPS; step++) {
      const now = fromStep(step, 256, 2_097_152);
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
  });
});

describe("texts", () => {
  it("are split into lines", () => expect(lines(" a \n\n b,c\n")).toEqual(["a", "b,c"]));
  it("of a message show other parts by type", () => {
    expect(messageText("hi")).toBe("hi");
    expect(messageText([{ type: "text", text: "look" }, { type: "media" }])).toBe("look\n[media]");
  });
});

describe("the time axis of a plot", () => {
  it("fits the data, however short it is", () => {
    expect(timeRange([1000, 1100], 0)).toEqual([985, 1115]);
    expect(timeRange([1000], 0)).toEqual([985, 1015]);
    expect(timeRange([0, 36_000], 1800)).toEqual([-1800, 37_800]);
    expect(timeRange([], 0)).toEqual([-15, 15]);
  });
});
