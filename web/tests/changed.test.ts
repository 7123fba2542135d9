import { describe, expect, it } from "vitest";

import { changed } from "../src/logic/changed";

describe("what was changed", () => {
  const before = { name: "Nova", budget: null as number | null, keys: ["lid", "moka"], notes: [{ text: "Be brief.", depth: 0 }] };
  it("is nothing where all is said again", () => {
    expect(changed(before, structuredClone(before))).toEqual({});
  });
  it("is the fields that differ, however deep", () => {
    const after = { ...before, name: "", keys: ["moka", "lid"], notes: [{ text: "Be brief.", depth: 2 }] };
    expect(changed(before, after)).toEqual({ name: "", keys: ["moka", "lid"], notes: [{ text: "Be brief.", depth: 2 }] });
    expect(changed(before, { ...before, budget: 0 })).toEqual({ budget: 0 });
  });
});
