/** Text of forms and messages. */

/** The non-empty lines of a field. */
export function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** The text of a message; other parts are shown by their type. */
export function messageText(content: string | { type?: string; text?: string }[]): string {
  if (typeof content === "string") return content;
  return content.map((part) => part.text ?? `[${part.type ?? "part"}]`).join("\n");
}
