import { describe, expect, it } from "vitest";

import { withTerms } from "../src/logic/glossary";

describe("the words of a text", () => {
  it("are explained where it uses them first", () => {
    expect(withTerms("Its pool 'a' was full. The pool has a price.")).toEqual([
      { text: "Its pool", term: "Pool" }, { text: " 'a' was full. The pool has a price", term: "Price" }, { text: "." },
    ]);
  });
  it("are whole words", () => {
    expect(withTerms("A whirlpool performs, priced high.")).toEqual([{ text: "A whirlpool performs, priced high." }]);
  });
});
