import { describe, expect, it } from "vitest";

import { personaName, roomName } from "../src/logic/names";

describe("names", () => {
  const bare = { room: "r-1", room_name: "", persona: "p-1", persona_name: "" };
  it("falls back to the id", () => {
    expect([roomName(bare), personaName(bare)]).toEqual(["r-1", "p-1"]);
    const named = { ...bare, room_name: "The kitchen", persona_name: "Nova" };
    expect([roomName(named), personaName(named)]).toEqual(["The kitchen", "Nova"]);
    expect(personaName({ ...bare, persona: null })).toBe("");
  });
});
