import { describe, expect, it } from "vitest";

import { eventReader } from "../src/logic/sse";

const STREAM = ': hello\n\nretry: 2000\nid: 7\n\nevent: context\ndata: {"a":\ndata: 1}\n\nid: 9\nevent: answer\ndata: two\r\n\r\ndata: three\n\n';
const EVENTS = [
  { id: "7", event: "context", data: '{"a":\n1}' },
  { id: "9", event: "answer", data: "two" },
  { id: "9", event: "message", data: "three" },
];

describe("server-sent events", () => {
  it("are read at once", () => expect(eventReader()(STREAM)).toEqual(EVENTS));
  it.each([1, 2, 3, 7])("are read in pieces of %d", (size) => {
    const take = eventReader();
    const pieces = STREAM.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
    expect(pieces.flatMap(take)).toEqual(EVENTS);
  });
  it("are not returned before they are complete", () => {
    const take = eventReader();
    expect(take("data: x\n")).toEqual([]);
    expect(take("\n")).toEqual([{ id: "", event: "message", data: "x" }]);
  });
});
