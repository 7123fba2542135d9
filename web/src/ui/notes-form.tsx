/** Notes: text inserted at a fixed distance from the end of every prompt. */

import type { Note } from "../api/records";
import { Choice, TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

/** A note while it is edited, with numbers as typed. */
export interface NoteDraft {
  text: string;
  name: string;
  depth: string;
  role: string;
  every: string;
}

const NEW: NoteDraft = { text: "", name: "", depth: "0", role: "system", every: "1" };

const ROLES = [["system", "system"], ["user", "user"], ["assistant", "assistant"]] as const;

export function toDraft(note: Note): NoteDraft {
  return { ...note, depth: note.depth === null ? "" : String(note.depth), every: String(note.every) };
}

export function toNote(draft: NoteDraft): Note {
  return { ...draft, depth: draft.depth === "" ? null : Number(draft.depth), every: Number(draft.every || 1) };
}

export function NotesForm({ notes, onInput }: { notes: NoteDraft[]; onInput: (notes: NoteDraft[]) => void }) {
  const put = (at: number, fields: Partial<NoteDraft>) => onInput(notes.map((note, here) => (here === at ? { ...note, ...fields } : note)));
  return (
    <fieldset>
      <legend>Notes</legend>
      {notes.map((note, at) => (
        <div key={at} role="group" aria-label={`Note ${at + 1}`}>
          <TextArea label={`Note ${at + 1}`} rows={2} required value={note.text} onInput={(text) => put(at, { text })} hint={<>in every context: <TokenCost text={note.text} /></>} />
          <div class="columns">
            <TextField label="Depth (messages after it)" type="number" min={0} value={note.depth} placeholder="at the start" onInput={(depth) => put(at, { depth })} />
            <Choice label="Role" value={note.role} options={ROLES} onInput={(role) => put(at, { role })} />
            <TextField label="Every N turns" type="number" min={1} required value={note.every} onInput={(every) => put(at, { every })} />
            <TextField label="Name" value={note.name} placeholder="optional" onInput={(name) => put(at, { name })} />
          </div>
          <p><button type="button" onClick={() => onInput(notes.filter((_, here) => here !== at))}>Remove note {at + 1}</button></p>
        </div>
      ))}
      <p><button type="button" onClick={() => onInput([...notes, NEW])}>Add note</button></p>
    </fieldset>
  );
}
