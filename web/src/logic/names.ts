/** Display names of rooms and personas, with their ids as fallback. */

interface Named {
  room: string;
  room_name: string;
  persona: string | null;
  persona_name: string;
}

export function roomName({ room, room_name }: Named): string {
  return room_name || room;
}

/** Empty if there is no persona. */
export function personaName({ persona, persona_name }: Named): string {
  return persona_name || (persona ?? "");
}
