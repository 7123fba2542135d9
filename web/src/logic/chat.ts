/** An answer in a chat while it is streamed. */

/** What one persona says. */
export interface Reply {
  persona: string | null;
  sender: string;
  /** What the model saw. */
  context: string;
  text: string;
  done: boolean;
}

export interface Turn {
  /** Whether the server has stored the question. */
  posted: boolean;
  replies: Reply[];
}

export const NEW_TURN: Turn = { posted: false, replies: [] };

/** The turn after an event of the stream. An error of the server is thrown. */
export function applyEvent(turn: Turn, event: string, data: string): Turn {
  const value = JSON.parse(data) as Partial<Reply> & { calls?: { name: string }[]; error?: { message: string } };
  const last = turn.replies.at(-1);
  const others = turn.replies.slice(0, -1);
  switch (event) {
    case "message":
      return { ...turn, posted: true };
    case "context":
      return { ...turn, replies: [...turn.replies, { persona: value.persona ?? null, sender: value.sender ?? "", context: value.context ?? "", text: "", done: false }] };
    case "chunk":
      return last ? { ...turn, replies: [...others, { ...last, text: last.text + (value.text ?? "") }] } : turn;
    case "answer":
      return last ? { ...turn, replies: [...others, { ...last, text: value.text || called(value.calls ?? []), done: true }] } : turn;
    case "error":
      throw new Error(value.error?.message ?? "The answer broke off.");
    default:
      return turn;
  }
}

function called(tools: { name: string }[]): string {
  return tools.map(({ name }) => `[calls ${name}]`).join("\n");
}

interface Said {
  role: string;
  hidden: boolean;
}

/** The question that a message answers: the last visible message of a user before it. `messages` are oldest first. */
export function questionOf<M extends Said>(messages: readonly M[], answer: M): M | null {
  return messages.slice(0, messages.indexOf(answer)).reverse().find((each) => each.role === "user" && !each.hidden) ?? null;
}

/** A new id, also on a page without TLS, where there is no `randomUUID`. */
export function newId(): string {
  return `msg-${[...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
