/** A memory is written or changed, and its cost is told while one types. */

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { useDraft } from "../api/draft";
import type { Memory, MemoryType } from "../api/kept";
import { Dialog } from "./dialog";
import { Check, Choice, ShareField, shownShare, TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

const TYPES = [
  ["semantic", "semantic: a fact"],
  ["episodic", "episodic: something that happened"],
  ["procedural", "procedural: how something is done"],
] as const;

export function MemoryDialog({ memory, onDone, onClose }: { memory: Memory | null; onDone: () => void; onClose: () => void }) {
  const { draft, put, changes } = useDraft({
    content: memory?.content ?? "",
    type: memory?.type ?? ("semantic" as MemoryType),
    importance: shownShare(memory?.importance ?? 0.5),
    persona: memory?.persona ?? "",
    user: memory?.user ?? "",
    room: memory?.room ?? "",
    pinned: memory?.pinned ?? false,
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const said = ({ persona, user, room, importance, ...rest }: typeof draft) => (
      { ...rest, importance: Number(importance), persona: persona || null, user: user || null, room: room || null }
    );
    const body = memory ? changes(said) : said(draft);
    const where = memory ? path`/memories/${memory.id}` : "/memories";
    if (await change.run(() => json(where, { method: memory ? "PUT" : "POST", body }))) onDone();
  };
  return (
    <Dialog title={memory ? "Change a memory" : "A new memory"} onClose={onClose} wide>
      <form onSubmit={(event) => void save(event)}>
        <TextArea label="What is to be known" value={draft.content} required onInput={(content) => put({ content })} hint={<TokenCost text={draft.content} before={memory?.tokens} />} />
        <div class="columns">
          <Choice label="Type" value={draft.type} options={TYPES} onInput={(type) => put({ type: type as MemoryType })} />
          <ShareField label="Importance" value={draft.importance} onInput={(importance) => put({ importance })} />
          <TextField label="Persona" value={draft.persona} placeholder="any" onInput={(persona) => put({ persona })} />
          <TextField label="User" value={draft.user} placeholder="any" onInput={(user) => put({ user })} />
          <TextField label="Room" value={draft.room} placeholder="any" onInput={(room) => put({ room })} />
          <Check label="Pinned: in every context" checked={draft.pinned} onInput={(pinned) => put({ pinned })} />
        </div>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons">
          <button type="button" onClick={onClose}>Leave it</button>
          <button type="submit" class="main" disabled={change.busy}>{memory ? "Save" : "Remember it"}</button>
        </div>
      </form>
    </Dialog>
  );
}
