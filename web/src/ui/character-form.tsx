/** A character, as in character cards. */

import { json } from "../api/client";
import type { Settings } from "../api/records";
import { changed } from "../logic/changes";
import { TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

type Field = readonly [name: string, label: string];

/** Fields of a persona's character; its system prompt is the persona's prompt. */
export const PERSONA_FIELDS: readonly Field[] = [
  ["description", "Description"], ["personality", "Personality"], ["scenario", "Scenario"], ["examples", "Examples"], ["greeting", "Greeting"],
];

/** Fields a room can override; empty ones fall back to the persona. */
export const ROOM_FIELDS: readonly Field[] = [["prompt", "System prompt"], ...PERSONA_FIELDS];

interface Described {
  character: Settings | null;
}

/** Merge the edits into the current character, since the API replaces the whole character. */
export async function mergedCharacter(where: string, { character: before }: Described, { character: after }: Partial<Described>) {
  if (!after) return {};
  const now = await json<Described>(where);
  return { character: { ...now.character, ...changed(before ?? {}, after) } };
}

interface Props {
  character: Settings | null;
  fields: readonly Field[];
  title: string;
  begin: string;
  onInput: (character: Settings) => void;
}

export function CharacterForm({ character, fields, title, begin, onInput }: Props) {
  if (!character) return <p><button type="button" onClick={() => onInput({})}>{begin}</button></p>;
  const value = (field: string) => String(character[field] ?? "");
  const put = (field: string) => (text: string) => onInput({ ...character, [field]: text });
  return (
    <fieldset>
      <legend>{title}</legend>
      {fields.map(([field, label]) => (
        <TextArea key={field} label={label} rows={3} value={value(field)} onInput={put(field)} hint={<TokenCost text={value(field)} />} />
      ))}
      <TextField label="Nickname" value={value("nickname")} placeholder="the persona's name" onInput={put("nickname")} />
    </fieldset>
  );
}
