import { describe, expect, it } from "vitest";

import { contextPath, diffPath, itemPath, match, roomPath, whatIfPath } from "../src/logic/routes";

describe("URLs", () => {
  it.each([
    ["/", "contexts", []],
    ["/?room=a%20b", "contexts", []],
    ["/stats/", "stats", []],
    [contextPath("a/b c?d"), "context", ["a/b c?d"]],
    [itemPath("c", "mem/1&2"), "context", ["c"]],
    [whatIfPath("c%"), "what-if", ["c%"]],
    [diffPath("a", "b/c"), "diff", ["a", "b/c"]],
    ["/diff", "diff", []],
    ["/rooms/a%2Fb/timeline", "timeline", ["a/b"]],
    ["/memories/mem-1/why", "why", ["mem-1"]],
    [roomPath("Łódź #1"), "room", ["Łódź #1"]],
    ["/rooms/100%", "room", ["100%"]],
    ["/messages/res-1%2Fmessage", "message", ["res-1/message"]],
    ["/memories/audit", "audit", []],
    ["/sessions", "sessions", []],
    ["/sessions/0a1b", "session", ["0a1b"]],
    ["/nowhere", null, []],
    ["/contexts", null, []],
  ])("%s is %s", (address, page, params) => {
    expect(match(address)).toMatchObject({ page, params });
  });
  it("keep the query", () => {
    expect(match(itemPath("c", "mem/1&2")).query.get("item")).toBe("mem/1&2");
    expect(match(whatIfPath("c", { price: "full" })).query.get("price")).toBe("full");
  });
});
