import { describe, expect, it } from "vitest";

import { changed } from "../src/logic/changes";

describe("what was changed", () => {
  const before = { name: "Nova", budget: null as number | null, keys: ["lid", "moka"], notes: [{ text: "Be brief.", depth: 0 }] };
  it("is empty if nothing differs", () => {
    expect(changed(before, structuredClone(before))).toEqual({});
  });
  it("contains the fields that differ, at any depth", () => {
    const after = { ...before, name: "", keys: ["moka", "lid"], notes: [{ text: "Be brief.", depth: 2 }] };
    expect(changed(before, after)).toEqual({ name: "", keys: ["moka", "lid"], notes: [{ text: "Be brief.", depth: 2 }] });
    expect(changed(before, { ...before, budget: 0 })).toEqual({ budget: 0 });
  });
});
