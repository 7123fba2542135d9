/** One lorebook with its entries. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path, query } from "../api/client";
import { countModel } from "../api/counting";
import type { EntryList, Lorebook, LoreEntry } from "../api/records";
import { useResource } from "../api/resource";
import { plural, whole } from "../logic/format";
import { go, route, setQuery } from "../router";
import { BookForm } from "../ui/book-form";
import { CountModel } from "../ui/count-model";
import { Confirm } from "../ui/dialog";
import { EntryDialog } from "../ui/entry-dialog";
import { TextField } from "../ui/fields";
import { Heading, Loaded, EmptyState } from "../ui/states";

export function LorebookPage({ id }: { id: string }) {
  const book = useResource<Lorebook>(path`/lorebooks/${id}`);
  const read = useResource<EntryList>(path`/lorebooks/${id}/entries` + query({ model: countModel.value }), { keep: true });
  const find = route.value.query.get("q") ?? "";
  const setFind = (q: string) => setQuery({ q });
  const [editing, setEditing] = useState<LoreEntry | "new" | null>(null);
  const [removing, setRemoving] = useState<LoreEntry | "book" | null>(null);
  const change = useChange();
  const done = () => (setEditing(null), setRemoving(null), read.reload());
  const remove = async () => {
    const isBook = removing === "book";
    const where = isBook ? path`/lorebooks/${id}` : path`/lorebooks/${id}/entries/${(removing as LoreEntry).id}`;
    if (await change.run(() => json(where, { method: "DELETE" }))) isBook ? go("/lorebooks") : done();
  };
  return (
    <>
      <Heading title={book.data?.name || id}>
        <button type="button" class="main" onClick={() => setEditing("new")}>New entry</button>
        <button type="button" class="danger" onClick={() => setRemoving("book")}>Remove lorebook</button>
      </Heading>
      {book.data && <BookForm key={JSON.stringify(book.data)} book={book.data} onSaved={book.reload} />}
      <div class="filters" role="search" aria-label="Search entries">
        <TextField label="Search" type="search" grow value={find} placeholder="name, keyword or text" onInput={setFind} />
        <CountModel />
      </div>
      {book.error && <p class="bad" role="alert">{book.error}</p>}
      <Loaded of={read}>
        {({ entries }) => entries.length === 0 ? (
          <EmptyState title="No entries yet" text="An entry is added to the context when one of its keywords appears, or always. Create the first one with the button above." />
        ) : <Entries entries={matching(entries, find)} onEdit={setEditing} onRemove={setRemoving} onChanged={read.reload} />}
      </Loaded>
      {editing && <EntryDialog lorebook={id} entry={editing === "new" ? null : editing} onDone={done} onClose={() => setEditing(null)} />}
      {removing && (
        <Confirm title={removing === "book" ? "Remove this lorebook?" : "Remove this entry?"} action="Remove" busy={change.busy} error={change.error} onYes={() => void remove()} onClose={() => setRemoving(null)}>
          {removing === "book" ? <p>This also removes all its entries.</p> : (
            <>
              <blockquote>{removing.content}</blockquote>
              <p>Future contexts cannot include it. This frees <b class="num">{whole(removing.tokens)}</b> tokens wherever it would have been included.</p>
            </>
          )}
        </Confirm>
      )}
    </>
  );
}

function matching(entries: LoreEntry[], find: string): LoreEntry[] {
  const words = find.toLowerCase();
  return entries.filter((each) => `${each.id} ${each.name} ${each.keys.join(" ")} ${each.content}`.toLowerCase().includes(words));
}

function Entries({ entries, onEdit, onRemove, onChanged }: {
  entries: LoreEntry[];
  onEdit: (entry: LoreEntry) => void;
  onRemove: (entry: LoreEntry) => void;
  onChanged: () => void;
}) {
  return (
    <>
      <p class="small muted" role="status">{plural(entries.length, "entry", "entries")}, {plural(entries.reduce((sum, each) => sum + each.tokens, 0), "token")} in total</p>
      <ul class="records" aria-label="Entries">
        {entries.map((each) => <EntryRow key={each.id} entry={each} onEdit={onEdit} onRemove={onRemove} onChanged={onChanged} />)}
      </ul>
    </>
  );
}

function EntryRow({ entry, onEdit, onRemove, onChanged }: {
  entry: LoreEntry;
  onEdit: (entry: LoreEntry) => void;
  onRemove: (entry: LoreEntry) => void;
  onChanged: () => void;
}) {
  const change = useChange();
  const turn = async () => {
    const where = path`/lorebooks/${entry.lorebook}/entries/${entry.id}`;
    if (await change.run(() => json(where, { method: "PUT", body: { enabled: !entry.enabled } }))) onChanged();
  };
  return (
    <li class={entry.enabled ? "record" : "record off"}>
      <p class="record-text">{entry.name && <b>{entry.name}: </b>}{entry.content}</p>
      <div class="record-line small">
        {entry.constant ? <span class="tag warn">always on</span> : entry.keys.map((key) => <span key={key} class="tag">{key}</span>)}
        {!entry.enabled && <span class="tag">off</span>}
        <span><b class="num">{whole(entry.tokens)}</b> tokens</span>
        <code>{entry.id}</code>
        <span class="record-buttons">
          <button type="button" class="quiet" disabled={change.busy} onClick={() => void turn()}>{entry.enabled ? "Turn off" : "Turn on"}<span class="hidden"> {entry.id}</span></button>
          <button type="button" class="quiet" onClick={() => onEdit(entry)}>Edit<span class="hidden"> {entry.id}</span></button>
          <button type="button" class="quiet" onClick={() => onRemove(entry)}>Remove<span class="hidden"> {entry.id}</span></button>
        </span>
      </div>
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </li>
  );
}
