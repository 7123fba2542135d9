/** What contexts are called: by the names that people gave, and by ids where there are none. */

interface Placed {
  room: string;
  room_name: string;
  persona: string | null;
  persona_name: string;
}

export function roomName({ room, room_name }: Placed): string {
  return room_name || room;
}

/** Who answers; nothing where no persona does. */
export function personaName({ persona, persona_name }: Placed): string {
  return persona_name || (persona ?? "");
}
