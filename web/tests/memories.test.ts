import { describe, expect, it } from "vitest";

import type { Finding } from "../src/api/records";
import { choose, chooseAll, chosenIds, endOf, endOfDay, firstChoices, originText, stateOf, useText } from "../src/logic/memories";

const finding = (id: string, kind: Finding["kind"], other = ""): Finding => ({ id, kind, reason: "", other });

describe("what is said about a memory", () => {
  it.each([
    [{ origin: "message", program: "" }, "from a message"],
    [{ origin: "message", program: "learned by m", source_removed: true }, "from a message that is gone, learned by m"],
    [{ origin: "session", program: "codex" }, "from a session of Codex"],
    [{ origin: "import", program: "claude" }, "imported from claude"],
    [{ origin: "tool", program: "mcp" }, "by a tool (mcp)"],
    [{ origin: "other", program: "crm" }, "from crm"],
    [{ origin: "direct", program: "" }, "added directly"],
  ] as const)("%j is %s", (memory, text) => {
    expect(originText({ source_removed: false, ...memory })).toBe(text);
  });
  it("is its state, if it is not simply true", () => {
    const archival = { run: 1, kind: "learning", at: 1, replaced_by: "m2" };
    const state = "active" as const;
    expect(stateOf({ state, archived: true, archival })).toBe("replaced");
    expect(stateOf({ state, archived: true, archival: { ...archival, replaced_by: null } })).toBe("archived");
    expect(stateOf({ state, archived: true, archival: null })).toBe("archived");
    expect(stateOf({ state: "proposed", archived: false, archival: null })).toBe("proposed");
    expect(stateOf({ state, archived: false, archival: null })).toBe("");
    expect(endOf({ ended: null, archival })).toBe(1);
    expect(endOf({ ended: 2, archival })).toBe(2);
    expect(endOf({ ended: null, archival: null })).toBe(null);
  });
  it("is how often and when it was used", () => {
    expect(useText({ accesses: 0, accessed: null })).toBe("in no context so far");
    expect(useText({ accesses: 1, accessed: null })).toBe("in 1 context");
    expect(useText({ accesses: 2, accessed: 1_000_000 })).toMatch(/^in 2 contexts, last \d+ Jan 1970/);
  });
});

describe("the end of a day", () => {
  it("is its last moment", () => {
    const at = Number(endOfDay("2026-03-01")) * 1000;
    expect(new Date(at).getDate()).toBe(1);
    expect(new Date(at + 1).getDate()).toBe(2);
  });
  it.each(["", "soon", "2026-3-1", "0001"])("is empty for %j", (date) => expect(endOfDay(date)).toBe(""));
});

describe("choices of what to archive", () => {
  const findings = [finding("a", "duplicate", "b"), finding("c", "junk"), finding("d", "unused"), finding("e", "contradicted", "f")];
  it("begin with what nobody has to decide", () => {
    expect(chosenIds(firstChoices(findings))).toEqual(["a", "c"]);
  });
  it("take one of two memories, or neither", () => {
    const first = firstChoices(findings);
    expect(choose(first, "a", "b")).toMatchObject({ a: "b" });
    expect(choose(first, "a", "a")).toEqual({ c: "c" });
  });
  it("take all of a kind, or none, and leave the others", () => {
    const all = chooseAll({ a: "b", c: "c" }, [findings[0]!, findings[2]!], true);
    expect(all).toEqual({ c: "c", a: "a", d: "d" });
    expect(chooseAll(all, [findings[0]!, findings[2]!], false)).toEqual({ c: "c" });
  });
  it("name each memory once", () => {
    expect(chosenIds({ x: "a", y: "a", z: "b" })).toEqual(["a", "b"]);
  });
});
