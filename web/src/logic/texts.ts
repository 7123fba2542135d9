/** Texts of forms and of messages. */

/** The lines of a field that hold something. */
export function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** What a message says. Of what is no text, its sort is named. */
export function spoken(content: string | { type?: string; text?: string }[]): string {
  if (typeof content === "string") return content;
  return content.map((part) => part.text ?? `[${part.type ?? "part"}]`).join("\n");
}
