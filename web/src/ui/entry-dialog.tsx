/** An entry of a lorebook is written or changed, and its cost is told while one types. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import type { LoreEntry } from "../api/kept";
import { lines } from "../logic/texts";
import { Dialog } from "./dialog";
import { Check, ShareField, shownShare, TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

export function EntryDialog({ lorebook, entry, onDone, onClose }: { lorebook: string; entry: LoreEntry | null; onDone: () => void; onClose: () => void }) {
  const [draft, setDraft] = useState({
    name: entry?.name ?? "",
    content: entry?.content ?? "",
    keys: entry?.keys.join("\n") ?? "",
    constant: entry?.constant ?? false,
    order: String(entry?.order ?? 100),
    importance: shownShare(entry?.importance ?? 0.5),
  });
  const change = useChange();
  const put = (said: Partial<typeof draft>) => setDraft((old) => ({ ...old, ...said }));
  const save = async (event: Event) => {
    event.preventDefault();
    const { importance, ...rest } = draft;
    const changed = importance === shownShare(entry?.importance ?? NaN) ? {} : { importance: Number(importance) };
    const body = { ...rest, ...changed, keys: lines(draft.keys), order: Number(draft.order) };
    const where = entry ? path`/lorebooks/${lorebook}/entries/${entry.id}` : path`/lorebooks/${lorebook}/entries`;
    if (await change.run(() => json(where, { method: entry ? "PUT" : "POST", body }))) onDone();
  };
  return (
    <Dialog title={entry ? "Change an entry" : "A new entry"} onClose={onClose} wide>
      <form onSubmit={(event) => void save(event)}>
        <TextField label="Name" value={draft.name} onInput={(name) => put({ name })} />
        <TextArea label="What is told" value={draft.content} required onInput={(content) => put({ content })} hint={<TokenCost text={draft.content} before={entry?.tokens} />} />
        <TextArea label="Keys, one a line" rows={3} value={draft.keys} onInput={(keys) => put({ keys })} hint="it is told when one of them is spoken of" />
        <div class="columns">
          <TextField label="Order" type="number" step={1} value={draft.order} onInput={(order) => put({ order })} />
          <ShareField label="Importance" value={draft.importance} onInput={(importance) => put({ importance })} />
          <Check label="Always told" checked={draft.constant} onInput={(constant) => put({ constant })} />
        </div>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons">
          <button type="button" onClick={onClose}>Leave it</button>
          <button type="submit" class="main" disabled={change.busy}>{entry ? "Save" : "Write it"}</button>
        </div>
      </form>
    </Dialog>
  );
}
