/** Create or edit a memory, with a live token count. */

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { useDraft } from "../api/draft";
import type { Memory, MemoryType } from "../api/records";
import { Dialog } from "./dialog";
import { Check, Choice, ShareField, formatShare, TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

const TYPES = [
  ["semantic", "semantic: a fact"],
  ["episodic", "episodic: an event"],
  ["procedural", "procedural: how to do something"],
] as const;

export function MemoryDialog({ memory, initial = {}, onDone, onClose }: {
  memory: Memory | null;
  /** Fields of a new memory. */
  initial?: Partial<Memory>;
  onDone: () => void;
  onClose: () => void;
}) {
  const first: Partial<Memory> = memory ?? initial;
  const { draft, put, changes } = useDraft({
    content: first.content ?? "",
    type: first.type ?? ("semantic" as MemoryType),
    importance: formatShare(first.importance ?? 0.5),
    persona: first.persona ?? "",
    user: first.user ?? "",
    room: first.room ?? "",
    cluster: first.cluster ?? "",
    pinned: first.pinned ?? false,
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const toBody = ({ persona, user, room, cluster, importance, ...rest }: typeof draft) => (
      { ...rest, importance: Number(importance), persona: persona || null, user: user || null, room: room || null, cluster: cluster || null }
    );
    const body = memory ? changes(toBody) : toBody(draft);
    const where = memory ? path`/memories/${memory.id}` : "/memories";
    if (await change.run(() => json(where, { method: memory ? "PUT" : "POST", body }))) onDone();
  };
  return (
    <Dialog title={memory ? "Edit memory" : "New memory"} onClose={onClose} wide>
      <form onSubmit={(event) => void save(event)}>
        <TextArea label="Content" value={draft.content} required onInput={(content) => put({ content })} hint={<TokenCost text={draft.content} before={memory?.tokens} />} />
        <div class="columns">
          <Choice label="Type" value={draft.type} options={TYPES} onInput={(type) => put({ type: type as MemoryType })} />
          <ShareField label="Importance" value={draft.importance} onInput={(importance) => put({ importance })} />
          <TextField label="Persona" value={draft.persona} placeholder="any" onInput={(persona) => put({ persona })} />
          <TextField label="User" value={draft.user} placeholder="any" onInput={(user) => put({ user })} />
          <TextField label="Room" value={draft.room} placeholder="any" onInput={(room) => put({ room })} />
          <TextField label="Cluster, which a summary can replace" value={draft.cluster} placeholder="none" onInput={(cluster) => put({ cluster })} />
          <Check label="Pinned (in every context)" checked={draft.pinned} onInput={(pinned) => put({ pinned })} />
        </div>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="main" disabled={change.busy}>{memory ? "Save" : "Create"}</button>
        </div>
      </form>
    </Dialog>
  );
}
