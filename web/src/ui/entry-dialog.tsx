/** Create or edit a lorebook entry, with a live token count. */

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { useDraft } from "../api/draft";
import type { LoreEntry } from "../api/records";
import { lines } from "../logic/text";
import { Dialog } from "./dialog";
import { Check, Choice, ShareField, formatShare, TextArea, TextField } from "./fields";
import { TokenCost } from "./token-cost";

const LOGICS = [
  ["and-any", "any secondary keyword matches"],
  ["and-all", "all secondary keywords match"],
  ["not-any", "no secondary keyword matches"],
  ["not-all", "at least one secondary keyword does not match"],
] as const;

export function EntryDialog({ lorebook, entry, onDone, onClose }: { lorebook: string; entry: LoreEntry | null; onDone: () => void; onClose: () => void }) {
  const { draft, put, changes } = useDraft({
    name: entry?.name ?? "",
    content: entry?.content ?? "",
    keys: entry?.keys.join("\n") ?? "",
    constant: entry?.constant ?? false,
    order: String(entry?.order ?? 100),
    importance: formatShare(entry?.importance ?? 0.5),
    secondary: entry?.secondary.join("\n") ?? "",
    logic: entry?.logic ?? "and-any",
    regex: entry?.regex ?? false,
    vector: entry?.vector ?? true,
    probability: formatShare(entry?.probability ?? 1),
    sticky: String(entry?.sticky ?? 0),
    cooldown: String(entry?.cooldown ?? 0),
    delay: String(entry?.delay ?? 0),
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const toBody = (now: typeof draft) => ({
      ...now,
      keys: lines(now.keys), secondary: lines(now.secondary), order: Number(now.order), importance: Number(now.importance),
      probability: Number(now.probability), sticky: Number(now.sticky), cooldown: Number(now.cooldown), delay: Number(now.delay),
    });
    const body = entry ? changes(toBody) : toBody(draft);
    const where = entry ? path`/lorebooks/${lorebook}/entries/${entry.id}` : path`/lorebooks/${lorebook}/entries`;
    if (await change.run(() => json(where, { method: entry ? "PUT" : "POST", body }))) onDone();
  };
  return (
    <Dialog title={entry ? "Edit entry" : "New entry"} onClose={onClose} wide>
      <form onSubmit={(event) => void save(event)}>
        <TextField label="Name" value={draft.name} onInput={(name) => put({ name })} />
        <TextArea label="Content" value={draft.content} required onInput={(content) => put({ content })} hint={<TokenCost text={draft.content} before={entry?.tokens} />} />
        <TextArea label="Keywords, one per line" rows={3} value={draft.keys} onInput={(keys) => put({ keys })} hint="the entry is added when one of them appears in recent messages" />
        <div class="columns">
          <TextField label="Order" type="number" step={1} value={draft.order} onInput={(order) => put({ order })} />
          <ShareField label="Importance" value={draft.importance} onInput={(importance) => put({ importance })} />
          <Check label="Always on" checked={draft.constant} onInput={(constant) => put({ constant })} />
        </div>
        <details>
          <summary>Activation</summary>
          <TextArea label="Secondary keywords, one per line" rows={2} value={draft.secondary} onInput={(secondary) => put({ secondary })} />
          <div class="columns">
            <Choice label="Condition" value={draft.logic} options={LOGICS} onInput={(logic) => put({ logic })} />
            <ShareField label="Probability" value={draft.probability} onInput={(probability) => put({ probability })} />
            <TextField label="Sticky, in messages" type="number" min={0} step={1} value={draft.sticky} onInput={(sticky) => put({ sticky })} />
            <TextField label="Cooldown, in messages" type="number" min={0} step={1} value={draft.cooldown} onInput={(cooldown) => put({ cooldown })} />
            <TextField label="Delay, in messages" type="number" min={0} step={1} value={draft.delay} onInput={(delay) => put({ delay })} />
            <Check label="Keywords are regular expressions" checked={draft.regex} onInput={(regex) => put({ regex })} />
            <Check label="Also match by meaning" checked={draft.vector} onInput={(vector) => put({ vector })} />
          </div>
        </details>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="main" disabled={change.busy}>{entry ? "Save" : "Create"}</button>
        </div>
      </form>
    </Dialog>
  );
}
