import { describe, expect, it } from "vitest";

import { applyEvent, newId, NEW_TURN, questionOf, type Turn } from "../src/logic/chat";

const data = (value: unknown) => JSON.stringify(value);

function play(...events: [string, unknown][]): Turn {
  return events.reduce((turn, [name, value]) => applyEvent(turn, name, data(value)), NEW_TURN);
}

describe("an answer that is streamed", () => {
  const nova = { persona: "nova", sender: "Nova", context: "ctx-1" };
  it("knows its context before its text is complete", () => {
    const turn = play(["message", { id: "q" }], ["context", nova], ["chunk", { text: "Gre" }], ["chunk", { text: "en" }]);
    expect(turn).toEqual({ posted: true, replies: [{ ...nova, text: "Green", done: false }] });
  });
  it("ends with the whole text", () => {
    const turn = play(["context", nova], ["chunk", { text: "Gre" }], ["answer", { ...nova, text: "Green.", calls: [] }]);
    expect(turn.replies).toEqual([{ ...nova, text: "Green.", done: true }]);
  });
  it("names the tools that it calls", () => {
    const turn = play(["context", nova], ["answer", { text: "", calls: [{ name: "look" }] }]);
    expect(turn.replies[0]?.text).toBe("[calls look]");
  });
  it("follows that of another persona", () => {
    const turn = play(["context", nova], ["chunk", { text: "A" }], ["answer", { text: "A" }], ["context", { ...nova, context: "ctx-2" }], ["chunk", { text: "B" }]);
    expect(turn.replies.map(({ text, done }) => [text, done])).toEqual([["A", true], ["B", false]]);
  });
  it("may end with an error, and ignores events that it does not know", () => {
    expect(play(["ping", {}])).toBe(NEW_TURN);
    expect(() => play(["error", { error: { message: "busy" } }])).toThrow("busy");
  });
});

describe("the question of an answer", () => {
  const [first, hidden, second, answer] = [
    { role: "user", hidden: false }, { role: "user", hidden: true }, { role: "assistant", hidden: false }, { role: "assistant", hidden: false },
  ];
  it("is the last visible message of a user before it", () => expect(questionOf([first, hidden, second, answer], answer)).toBe(first));
  it("is none without one", () => expect(questionOf([hidden, answer], answer)).toBeNull());
});

it("ids are new", () => expect(newId()).not.toBe(newId()));
