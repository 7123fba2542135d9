import { describe, expect, it } from "vitest";

import type { Decision, Remedy } from "../src/api/types";
import { outcomes, placeOf } from "../src/logic/candidates";
import { windowSum } from "../src/logic/components";
import { absenceText, explain, origin, unusedTokens } from "../src/logic/why";

function decision(id: string, more: Partial<Decision> = {}): Decision {
  return {
    id, kind: "memory-semantic", component: "memories", outcome: "dropped", reason: "pool-full", tokens: 40, cost: 0, pool: "related",
    score: scores(0.2), rank: 1, cut: 2, by: "", group: "", why: "", excerpt: "", at: 0, position: null,
    form: "full", larger: 0, smaller: 0, size: 40, ...more,
  };
}

const scores = (total: number) => ({ total, priority: 0, importance: 0, relevance: 0.0007, recency: 0 });
const kept = (id: string, total: number, cost: number) => decision(id, { outcome: "kept", reason: "fits", score: scores(total), cost });
const pool = { name: "related", limit: 100, max_tokens: 120, used: 90, items: 2, borrowed: 0 };
const view = (...decisions: Decision[]) => ({ decisions, pools: [pool], price: 0.015, tokens: 990, available: 1000 });
const price: Remedy = { change: "price", window: null, price: "full", tokens: 40, left: 0 };

describe("an explanation", () => {
  it("compares the score with that of what got in", () => {
    expect(explain(decision("out"), view(kept("a", 0.5, 50), kept("b", 0.3, 40)))).toBe(
      "Its pool 'related' was full (90 of 100 tokens). Everything that got in scores higher: 0.30 or more. This one has a score of 0.20.",
    );
    expect(explain(decision("out"), view(kept("a", 0.5, 50), kept("b", 0.1, 30)))).toBe(
      "Its pool 'related' was full (90 of 100 tokens). 1 of the 2 items that got in scores higher than this one (0.20). The others are shorter: 30 tokens at most, and this one has 40.",
    );
    expect(explain(decision("out", { reason: "window-full" }), view(kept("a", 0.1, 50)))).toBe(
      "The window was full (990 of 1,000 tokens). Nothing that got in scores higher than this one (0.20).",
    );
  });
  it("compares the score with the price of the tokens", () => {
    const cheap = decision("out", { reason: "not-worth", score: scores(0.0004) });
    expect(explain(cheap, view(), [price])).toContain("take 40 tokens, which have to be worth a score of at least 0.0006");
    expect(explain(cheap, view(), [price])).toContain("(0.015 per 1,000 tokens). Its score is 0.0004.");
    const unlikely = decision("out", { reason: "not-worth", score: scores(0), why: "dropped: nothing that was found is likely to help, score 0.00" });
    expect(explain(unlikely, view(), [price])).toBe("Nothing that was found is likely to help.");
  });
  it("says how far back history goes", () => {
    expect(explain(decision("out", { reason: "older", rank: 7, cut: 4 }), view())).toContain("The newest 4 got in; this one is number 7.");
    expect(explain(decision("out", { reason: "low-water", rank: 5, cut: 4 }), view())).toContain("(90 of 100 tokens)");
  });
  it("names the largest size of a pool", () => {
    expect(explain(decision("out", { reason: "too-large", tokens: 500 }), view())).toBe("It has 500 tokens, but its pool 'related' holds at most 120.");
  });
  it("is otherwise the first part of the server's line", () => {
    const why = "kept: fits in pool 'related' (90/100 tokens), score 0.50, 40 tokens, rank 1; candidate because found by retrieval (relevance under 1 %: words 8.2)";
    const inside = decision("in", { outcome: "kept", reason: "fits", why });
    expect(explain(inside, view())).toBe("Fits in pool 'related' (90/100 tokens).");
    expect(origin(inside)).toBe("search found it (very unlikely to help: words 8.2)");
    expect(origin({ ...inside, score: { ...scores(0.5), relevance: 0.712 } })).toBe("search found it (relevance 71\u00a0%: words 8.2)");
    expect(origin(decision("x", { why: "kept: required" }))).toBe("");
  });
  it("says how unlikely it is that something helps, and where it stands", () => {
    const unlikely = decision("out", { reason: "unlikely", rank: 3, cut: 1 });
    const rest = " Such results distract more often than they help.";
    expect(explain(unlikely, view(kept("a", 0.5, 50), kept("b", 0.5, 50), unlikely))).toBe(`It is very unlikely to help, 3rd of 3, cut at 1.${rest}`);
    expect(explain({ ...unlikely, score: { ...scores(0.1), relevance: 0.03 } }, view())).toBe(`It is unlikely to help (relevance 3\u00a0%).${rest}`);
  });
  it("says why something was not a candidate, and why free tokens did not help it", () => {
    const absence = { kind: "memory-semantic", reason: "not-found", why: "", fix: "", relevance: 0.0002 };
    const free = (...decisions: Decision[]) => ({ remaining: 1847, decisions });
    const text = "1,847 tokens of the window stayed free, but only candidates can use them.";
    expect(absenceText({ ...absence, why: "search offered 27 others instead (relevance 56 % to under 1 %)" })).toBe("search offered 27 others instead (relevance 56 % and less)");
    expect(absenceText({ ...absence, why: "search offered 9 others instead (relevance under 1 %)" })).toBe("search offered 9 others instead (very unlikely to help)");
    expect(unusedTokens(absence, free())).toBe(text);
    expect(unusedTokens(absence, free(decision("x", { reason: "not-worth" })))).toBe(`${text} A larger window would not make it one.`);
    expect(unusedTokens({ ...absence, kind: "message", relevance: null }, free())).toBe(text);
    expect(unusedTokens({ ...absence, reason: "later" }, free())).toBe("");
    expect(unusedTokens(absence, { remaining: 0, decisions: [] })).toBe("");
  });
  it("counts places in a pool", () => {
    expect(placeOf(decision("x"), [decision("x"), decision("y"), decision("z", { pool: "recent" })])).toEqual({ rank: 1, total: 2, cut: 2 });
  });
});

describe("numbers", () => {
  it("of candidates add up", () => {
    expect(outcomes([kept("a", 1, 1), decision("b")], 2)).toBe("1 included, 1 left out");
    expect(outcomes([kept("a", 1, 1), decision("b"), decision("c", { outcome: "duplicate" })], 3)).toBe("1 included, 1 left out, 1 duplicate");
    expect(outcomes([kept("a", 1, 1)], 190)).toBe("1 included, 0 left out, 189 older messages not loaded");
  });
  it("of a window add up", () => {
    const band = (name: string, tokens: number) => ({ name, title: "", tokens, items: 0 });
    const bands = [band("recent", 60), band("free", 20), band("margin", 0), band("completion", 20)];
    expect(windowSum({ window: 100, available: 80, tokens: 60, bands })).toBe("Window of 100 tokens = 60 used + 20 free + 20 reserved for the answer.");
  });
});
