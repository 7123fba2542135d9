/** All lorebooks. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json } from "../api/client";
import { countModel } from "../api/counting";
import type { LorebookList } from "../api/records";
import { usePages } from "../api/pages";
import { plural } from "../logic/format";
import { lorebookPath } from "../logic/routes";
import { go } from "../router";
import { CountModel } from "../ui/count-model";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/fields";
import { More } from "../ui/more";
import { Heading, Loaded, EmptyState } from "../ui/states";

export function LorebooksPage() {
  const list = usePages<LorebookList>("/lorebooks", { model: countModel.value }, "after");
  const [find, setFind] = useState("");
  const [creating, setCreating] = useState(false);
  const books = list.pages.flatMap((page) => page.lorebooks);
  const shown = books.filter((each) => `${each.id} ${each.name}`.toLowerCase().includes(find.toLowerCase()));
  return (
    <>
      <Heading title="Lorebooks"><button type="button" class="main" onClick={() => setCreating(true)}>New lorebook</button></Heading>
      <div class="filters" role="search" aria-label="Search lorebooks">
        <TextField label="Search" type="search" grow value={find} placeholder="id or name" onInput={setFind} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => books.length === 0 ? (
          <EmptyState title="No lorebooks yet" text="A lorebook is a set of entries about a world, a product or a person. An entry is added to the context when one of its keywords appears. Create one with the button above and assign it to a room or a persona." />
        ) : (
          <>
            <ul class="records" aria-label="Lorebooks">
              {shown.map((each) => (
                <li key={each.id} class="record">
                  <p class="record-text"><a href={lorebookPath(each.id)}>{each.name || each.id}</a></p>
                  <div class="record-line small">
                    <code>{each.id}</code>
                    <span>{plural(each.entries, "entry", "entries")}</span>
                    <span>{plural(each.tokens, "token")} in total</span>
                  </div>
                </li>
              ))}
            </ul>
            {shown.length === 0 && <p class="muted">No match among the lorebooks loaded so far.</p>}
            <More of={list} />
          </>
        )}
      </Loaded>
      {creating && <NewLorebook onClose={() => setCreating(false)} />}
    </>
  );
}

function NewLorebook({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const [name, setName] = useState("");
  const change = useChange();
  const create = async (event: Event) => {
    event.preventDefault();
    if (await change.run(() => json("/lorebooks", { method: "POST", body: { id: id.trim(), name } }))) go(lorebookPath(id.trim()));
  };
  return (
    <Dialog title="New lorebook" onClose={onClose}>
      <form onSubmit={(event) => void create(event)}>
        <TextField label="ID" value={id} required onInput={setId} />
        <TextField label="Name" value={name} onInput={setName} />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Create</button></div>
      </form>
    </Dialog>
  );
}
