import { describe, expect, it } from "vitest";

import type { Omission, RequestMessage } from "../src/api/types";
import { collapsed, collapsedText, cutText, omissionText, pieces, requestRows } from "../src/logic/request";

const message = (text: string, tokens = 10): RequestMessage => ({ role: "user", name: "", text, tokens, items: [] });
const omission = (index: number, more: Partial<Omission> = {}): Omission => ({
  index, component: "recent", summary: "", count: 12, tokens: 3410, items: ["m1"], ...more,
});

describe("a request", () => {
  it("has what was left out before the message where it would have been", () => {
    const messages = [message("a"), message("b")];
    const rows = requestRows({ messages, omissions: [omission(1), omission(2), omission(1, { component: "tools" })] });
    expect(rows.map((row) => ("message" in row ? row.message.text : row.omission.component))).toEqual(["a", "recent", "tools", "b", "recent"]);
  });
  it("is collapsed in its middle if it is long", () => {
    const rows = Array.from({ length: 30 }, (_, index) => ({ message: message(String(index), 5), index }));
    const [first, middle, last] = collapsed(rows, 4);
    expect([first.length, middle.length, last.length]).toEqual([4, 22, 4]);
    expect([...first, ...middle, ...last]).toEqual(rows);
    expect(collapsedText([...middle, { omission: omission(3) }])).toBe("22 messages, 110 tokens");
    expect(collapsed(rows.slice(0, 10), 4)).toEqual([rows.slice(0, 10), [], []]);
  });
});

describe("what is not in a request", () => {
  it("says how much it is", () => {
    expect(omissionText(omission(0))).toBe("12 messages left out, 3,410 tokens");
    expect(omissionText(omission(0, { component: "lorebook", count: 1, tokens: 1 }))).toBe("1 lorebook entry left out, 1 token");
    expect(omissionText(omission(0, { component: "own-kind", count: 2 }))).toBe("2 items left out, 3,410 tokens");
    expect(omissionText(omission(0, { summary: "sum" }))).toBe("12 messages replaced by a summary, 3,410 tokens");
    expect(omissionText(omission(0, { summary: "ledger" }), true)).toBe("12 messages as one line each, 3,410 tokens");
    expect(omissionText(omission(0, { items: [] }))).toBe("12 older messages not loaded, 3,410 tokens");
    expect(cutText({ form: "excerpt", tokens: 234, size: 1900 })).toBe("excerpt: 1,666 of 1,900 tokens cut");
  });
});

describe("the pieces of a shortened text", () => {
  const parts = (full: string, seen: string) => pieces(full, seen).map((each) => `${each.isSeen ? "+" : "-"}${each.text}`);

  it("are seen or not, and together the text", () => {
    const full = "One is here. Two was cut. So was three!\nFour stays.";
    expect(parts(full, "One is here. […] Four stays.")).toEqual(["+One is here. ", "-Two was cut. So was three!\n", "+Four stays."]);
    expect(pieces(full, "").map((each) => each.text).join("")).toBe(full);
  });
  it("are looked for in order, whatever the blanks", () => {
    expect(parts("a\n\n  b\na\nc", "b\na \n[…]")).toEqual(["-a\n\n  ", "+b\na\n", "-c"]);
  });
  it("may be cut within a sentence", () => {
    expect(parts("A long sentence that goes on and on.\nAnother one.", "sentence that goes [… recall \"m1\"]")).toEqual([
      "+A long sentence that goes on and on.\n", "-Another one.",
    ]);
  });
  it("are all of a text that was seen, and none of an empty one", () => {
    expect(parts("One. Two.", "One. Two.")).toEqual(["+One. Two."]);
    expect(pieces("", "x")).toEqual([]);
  });
  it("take time in proportion to the text", () => {
    const text = `${" ".repeat(50_000)}x${"!?".repeat(50_000)}`;
    const start = performance.now();
    expect(pieces(text, "y").map((each) => each.text).join("")).toBe(text);
    expect(performance.now() - start).toBeLessThan(2_000);
  });
});
