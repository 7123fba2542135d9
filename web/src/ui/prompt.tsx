/** The messages of a request. The middle of a long one is collapsed. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { PromptPart } from "../api/types";
import { whole } from "../logic/format";

const EDGE = 20; // messages at either end

export function Prompt<T extends PromptPart>({ parts, look, note }: {
  parts: T[];
  look: (part: T) => string;
  note: (part: T, index: number) => ComponentChildren;
}) {
  const [all, setAll] = useState(false);
  const isLong = !all && parts.length > 2 * EDGE + 5;
  const line = (part: T, index: number) => (
    <li key={index} class={look(part)}>
      <span class="role">{part.role}</span>
      <span class="prompt-text">{part.excerpt}</span>
      <span class="num muted small">{note(part, index)}</span>
    </li>
  );
  return (
    <ol class="prompt" aria-label="Messages of the request">
      {parts.slice(0, isLong ? EDGE : undefined).map(line)}
      {isLong && <li class="elided"><button type="button" class="quiet" onClick={() => setAll(true)}>Show {whole(parts.length - 2 * EDGE)} more messages</button></li>}
      {isLong && parts.slice(-EDGE).map((part, index) => line(part, parts.length - EDGE + index))}
    </ol>
  );
}
