/** Display names of rooms and personas, with their ids as fallback, and of who can see a memory. */

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

/** Who can see a memory: "user ada, room kitchen". */
export function memoryOwner({ persona, user, room }: { persona: string | null; user: string | null; room: string | null }): string {
  const whose = [persona && `persona ${persona}`, user && `user ${user}`, room && `room ${room}`].filter(Boolean);
  return whose.length > 0 ? whose.join(", ") : "everyone";
}

interface Owned {
  persona: string | null;
  user?: string | null;
  room: string | null;
}

/** Whether a memory may be in a context: whoever it belongs to takes part in it. */
export function canSee(context: Owned, memory: Owned): boolean {
  return (["persona", "user", "room"] as const).every((name) => !memory[name] || memory[name] === context[name]);
}
