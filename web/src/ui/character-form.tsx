/** A character: who answers, as character cards tell it. */

import { json } from "../api/client";
import type { Settings } from "../api/kept";
import { changed } from "../logic/changed";
import { TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

type Field = readonly [name: string, label: string];

/** What a persona's character tells; its system prompt is the persona's own. */
export const OF_PERSONA: readonly Field[] = [
  ["description", "Description"], ["personality", "Personality"], ["scenario", "Scenario"], ["examples", "Examples"], ["greeting", "Greeting"],
];

/** What a room may tell in its place: where it says nothing, the persona's own stands. */
export const OF_ROOM: readonly Field[] = [["prompt", "System prompt"], ...OF_PERSONA];

interface Described {
  character: Settings | null;
}

/** The character with what was changed here, on top of what it is by now: the API takes a character as a whole. */
export async function characterNow(where: string, { character: before }: Described, { character: after }: Partial<Described>) {
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
  const said = (field: string) => String(character[field] ?? "");
  const put = (field: string) => (text: string) => onInput({ ...character, [field]: text });
  return (
    <fieldset>
      <legend>{title}</legend>
      {fields.map(([field, label]) => (
        <TextArea key={field} label={label} rows={3} value={said(field)} onInput={put(field)} hint={<TokenCost text={said(field)} />} />
      ))}
      <TextField label="Nickname" value={said("nickname")} placeholder="the persona's name" onInput={put("nickname")} />
    </fieldset>
  );
}
