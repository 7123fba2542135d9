import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { latest } from "../src/logic/latest";

interface Asked {
  question: number;
  signal: AbortSignal;
  answer(text: string): void;
  fail(error: Error): void;
}

function setUp() {
  const asked: Asked[] = [];
  const told: string[] = [];
  const each = latest<number, string>(
    (question, signal) => new Promise((answer, fail) => asked.push({ question, signal, answer, fail })),
    { answer: (text) => told.push(text), error: (error) => told.push(`! ${String(error)}`) },
    400,
    () => Date.now(),
  );
  return { asked, told, each };
}

describe("latest", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("runs the first request at once and keeps only the newest of those that follow", async () => {
    const { asked, told, each } = setUp();
    [1, 2, 3].forEach((n) => each.ask(n));
    expect(asked.map((one) => one.question)).toEqual([1]);
    asked[0]?.answer("one");
    await vi.advanceTimersByTimeAsync(0);
    expect(asked.map((one) => one.question)).toEqual([1, 3]);
    asked[1]?.answer("three");
    await vi.advanceTimersByTimeAsync(0);
    expect(told).toEqual(["one", "three"]);
  });
  it("aborts a slow request once there is a newer one", async () => {
    const { asked, told, each } = setUp();
    each.ask(1);
    await vi.advanceTimersByTimeAsync(300);
    each.ask(2);
    await vi.advanceTimersByTimeAsync(99);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(asked[0]?.signal.aborted).toBe(true);
    asked[0]?.answer("too late");
    asked[1]?.answer("two");
    await vi.advanceTimersByTimeAsync(0);
    expect(told).toEqual(["two"]);
  });
  it("reports errors and continues", async () => {
    const { asked, told, each } = setUp();
    each.ask(1);
    each.ask(2);
    asked[0]?.fail(new Error("no"));
    await vi.advanceTimersByTimeAsync(0);
    asked[1]?.answer("yes");
    await vi.advanceTimersByTimeAsync(0);
    expect(told).toEqual(["! Error: no", "yes"]);
  });
  it("reports nothing after it was stopped", async () => {
    const { asked, told, each } = setUp();
    each.ask(1);
    each.stop();
    each.ask(2);
    expect(asked[0]?.signal.aborted).toBe(true);
    asked[0]?.answer("one");
    await vi.advanceTimersByTimeAsync(1000);
    expect([told, asked.length]).toEqual([[], 1]);
  });
});
