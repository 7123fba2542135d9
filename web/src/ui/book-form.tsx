/** Settings of a lorebook. */

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { useDraft } from "../api/draft";
import type { Lorebook } from "../api/records";
import { TextField } from "./fields";

export function BookForm({ book, onSaved }: { book: Lorebook; onSaved: () => void }) {
  const { draft, put, changes } = useDraft({
    name: book.name, description: book.description, scan_depth: String(book.scan_depth),
    budget: book.budget === null ? "" : String(book.budget), recursion: String(book.recursion),
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const body = changes(({ budget, scan_depth, recursion, ...rest }) => (
      { ...rest, scan_depth: Number(scan_depth), recursion: Number(recursion), budget: budget ? Number(budget) : null }
    ));
    if (await change.run(() => json(path`/lorebooks/${book.id}`, { method: "PUT", body }))) onSaved();
  };
  return (
    <details class="form">
      <summary>Lorebook settings</summary>
      <form aria-label="Lorebook" onSubmit={(event) => void save(event)}>
        <div class="columns">
          <TextField label="Name" value={draft.name} onInput={(name) => put({ name })} />
          <TextField label="Description" value={draft.description} onInput={(description) => put({ description })} />
          <TextField label="Messages to scan" type="number" min={0} step={1} value={draft.scan_depth} onInput={(depth) => put({ scan_depth: depth })} />
          <TextField label="Max tokens" type="number" min={0} step={1} value={draft.budget} placeholder="no limit" onInput={(budget) => put({ budget })} />
          <TextField label="Max recursion depth" type="number" min={0} step={1} value={draft.recursion} onInput={(recursion) => put({ recursion })} />
        </div>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Save</button></div>
      </form>
    </details>
  );
}
