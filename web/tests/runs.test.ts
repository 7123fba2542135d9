import { describe, expect, it } from "vitest";

import type { RunDetail, Step } from "../src/api/runs";
import type { ContextRow, Decision, RunView } from "../src/api/types";
import { nothingLeftOut, outcomes } from "../src/logic/candidates";
import { mergeRows } from "../src/logic/feed";
import { includedText, newerRun, runFacts } from "../src/logic/run-facts";
import { bars, callNames, callText, changedSince, choices, chosen, mergeSteps, notesOf, pagesOf, partsOf, stepText, sumTimes, timesOf, totalTime } from "../src/logic/runs";

const NOTE = { kind: "calibration", text: "counts were adjusted", facts: {} };

function step(more: Partial<Step> = {}): Step {
  return {
    number: 1, id: "c1", at: 0, model: "gpt-4o", tokens: 90, available: 100, candidates: 9, left_out: 0, lines: 0, warnings: [], degraded: [], recorded: true,
    calls: [], answer: "", finish: "stop", recalls: [], feedback: null, prompt: 100, cached: 80, completion: 5, cost: 0.1,
    seconds: { retrieval: null, build: 0.5, model: 2, tools: null, recall: null },
    ...more,
  };
}

function run(more: Partial<RunView> = {}): RunView {
  return { id: "c1", steps: 47, begin: 100, end: 343, models: ["gpt-4o"], prompt: 1_200_000, cached: 1_104_000, completion: 12_000, cost: 1.2, warnings: 0, degraded: 0, ...more };
}

describe("what a step did", () => {
  it.each([
    [{ calls: [{ name: "Bash", arguments: "{}" }, { name: "Read", arguments: "{}" }, { name: "Bash", arguments: "{}" }] }, "Bash ×2, Read"],
    [{ answer: "The lid was loose." }, "The lid was loose."],
    [{ finish: "" }, "No answer yet"],
    [{}, "Answered"],
    [{ finish: "tool-calls" }, "Called tools"],
    [{ finish: "broken-off" }, "Ended: broken off"],
  ])("%j", (more, text) => {
    expect(stepText(step(more))).toBe(text);
  });
  it("shows the first argument of a call, or all that is left of it", () => {
    expect(callText({ name: "Bash", arguments: '{"command":"ls","timeout":3}' })).toBe("ls");
    expect(callText({ name: "Wait", arguments: '{"seconds":3}' })).toBe('{"seconds":3}');
    expect(callText({ name: "Now", arguments: "{}" })).toBe("{}");
    expect(callText({ name: "Edit", arguments: '{"old":"kettl…' })).toBe('{"old":"kettl…');
    expect(callNames([])).toBe("");
  });
});

describe("which steps are shown", () => {
  const steps = [step(), step({ warnings: [NOTE], degraded: [NOTE] }), step({ left_out: 3, lines: 3 }), step({ finish: "broken-off" })];
  it("has only choices with steps", () => {
    expect(choices(steps)).toEqual([["all", "All", 4], ["warnings", "With warnings", 1], ["cut", "With something cut", 1], ["unanswered", "Without an answer", 1]]);
    expect(choices([])).toEqual([["all", "All", 0]]);
  });
  it("filters, and shows all for a choice that there is not", () => {
    expect(chosen(steps, "cut")).toEqual([steps[2]]);
    expect(chosen(steps, "nonsense")).toEqual(steps);
  });
  it("finds all words, in whatever a step shows", () => {
    const calls = [{ name: "Bash", arguments: '{"command":"ls kettle"}' }];
    const recalls = [{ text: "round 1", handle: "msg-3", query: "the Lid", tokens: 9, seconds: null }];
    const every = [step({ calls }), step({ recalls }), step({ answer: "The lid was loose." }), step({ warnings: [NOTE] })];
    expect(chosen(every, "all", "KETTLE bash")).toEqual([every[0]]);
    expect(chosen(every, "all", "lid")).toEqual([every[1], every[2]]);
    expect(chosen(every, "recalls", "lid")).toEqual([every[1]]);
    expect(chosen(every, "all", "adjusted")).toEqual([every[3]]);
    expect(chosen(every, "all", "nonsense")).toEqual([]);
  });
  it("lists them in pages", () => {
    expect(pagesOf(steps, 3)).toEqual([steps.slice(0, 3), steps.slice(3)]);
    expect(pagesOf([], 3)).toEqual([]);
  });
  it("says once what degraded a step", () => {
    expect(notesOf(step({ warnings: [NOTE], degraded: [NOTE] }))).toEqual(["counts were adjusted"]);
  });
});

describe("where the time went", () => {
  it("leaves out what is not known", () => {
    const { seconds } = step();
    expect(timesOf(seconds)).toEqual([["build", 0.5], ["model", 2]]);
    expect(totalTime(seconds)).toBe(2.5);
    expect(sumTimes([step(), step({ seconds: { retrieval: null, build: 0.25, model: null, tools: 4, recall: null } })])).toEqual([["build", 0.75], ["model", 2], ["tools", 4]]);
  });
  it("draws a bar for each value", () => {
    expect(bars([50, null, 100], 100)).toBe("M0 100V50h1V100zM2 100V0h1V100z");
  });
});

describe("the parts of a step", () => {
  const recalls = [{ text: "round 1", handle: "msg-3", query: "", tokens: 9, seconds: null }];
  const calls = [{ name: "Bash", arguments: "{}" }];
  it("has a time that is not known only where there is something to time", () => {
    expect(partsOf(step())).toEqual([["build", 0.5], ["model", 2]]);
    expect(partsOf(step({ calls }))).toEqual([["build", 0.5], ["model", 2], ["tools", null]]);
    expect(partsOf(step({ calls, recalls }))).toEqual([["build", 0.5], ["model", 2], ["recall", null]]);
    expect(partsOf(step({ seconds: { retrieval: 0.1, build: null, model: null, tools: null, recall: null } }))).toEqual([["retrieval", 0.1], ["build", null], ["model", null]]);
  });
});

describe("a run whose agent is at work", () => {
  const steps = [1, 2, 3].map((at) => step({ id: `c${at}`, at }));
  it("is loaded again from the step before the one that changed", () => {
    expect(changedSince(steps, "c3")).toBe(2);
    expect(changedSince(steps, "c1")).toBe(1);
    expect(changedSince(steps, "c4")).toBe(2);
    expect(changedSince([], "c1")).toBe(0);
  });
  it("takes newer states of steps, and new ones", () => {
    const detail = { run: run(), first: 5, question: "Why?", steps } as RunDetail;
    const [, , third] = steps.map((each) => ({ ...each, finish: "tool-calls" }));
    const fourth = step({ id: "c4", at: 4 });
    const merged = mergeSteps(detail, { ...detail, run: run({ steps: 48 }), first: 7, steps: [third, fourth] as Step[] });
    expect(merged).toEqual({ ...detail, run: run({ steps: 48 }), steps: [steps[0], steps[1], third, fourth] });
  });
});

describe("a run in the list", () => {
  it("has its sums", () => {
    expect(runFacts(run())).toEqual(["47 steps", "1.2M tokens in, 92\u00a0% cached, 12k out", "$1.20", "4 min 3 s", "gpt-4o"]);
    expect(runFacts(run({ prompt: 0, cost: null }))).toEqual(["47 steps", "4 min 3 s", "gpt-4o"]);
  });
  it("is the newer of two states", () => {
    const later = run({ end: 400, steps: 48 });
    expect(newerRun(run(), later)).toBe(later);
    expect(newerRun(later, run())).toBe(later);
    expect(newerRun(null, later)).toBe(later);
    expect(newerRun(later, undefined)).toBe(later);
  });
  it("has one row, that of its newest context", () => {
    const row = (number: number, id: string) => ({ number, id: `c${number}`, run: run({ id }) }) as ContextRow;
    expect(mergeRows([row(1, "a"), row(5, "b")], [row(7, "a"), row(3, "a")]).map((each) => each.number)).toEqual([7, 5]);
  });
});

describe("what is a line in the ledger only", () => {
  const decision = (outcome: string, reason: string) => ({ outcome, reason }) as Decision;
  const decisions = [decision("kept", "fits"), decision("replaced", "ledger"), decision("replaced", "ledger")];
  it("is not called included", () => {
    expect(outcomes(decisions, 3)).toBe("1 included, 2 as one line each, 0 left out");
    expect(nothingLeftOut(decisions)).toBe("Nothing was left out, but only 1 candidate is whole: the model sees 2 others as one line each.");
    expect(nothingLeftOut(decisions.slice(0, 1))).toBe("Every candidate was included.");
    expect(includedText({ candidates: 95, left_out: 78, lines: 78 })).toBe("17 of 95 candidates included, 78 as one line each");
    expect(includedText({ candidates: 1, left_out: 0, lines: 0 })).toBe("1 of 1 candidate included");
  });
});
