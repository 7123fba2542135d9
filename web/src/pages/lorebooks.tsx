/** All lorebooks. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json } from "../api/client";
import { countModel } from "../api/counting";
import type { LorebookList } from "../api/kept";
import { usePages } from "../api/pages";
import { plural } from "../logic/format";
import { lorebookPath } from "../logic/routes";
import { go } from "../router";
import { CountModel } from "../ui/count-model";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/fields";
import { More } from "../ui/more";
import { Heading, Loaded, Patience } from "../ui/states";

export function LorebooksPage() {
  const list = usePages<LorebookList>("/lorebooks", { model: countModel.value }, "after");
  const [find, setFind] = useState("");
  const [making, setMaking] = useState(false);
  const books = list.pages.flatMap((page) => page.lorebooks);
  const shown = books.filter((each) => `${each.id} ${each.name}`.toLowerCase().includes(find.toLowerCase()));
  return (
    <>
      <Heading title="Lorebooks"><button type="button" class="main" onClick={() => setMaking(true)}>New lorebook</button></Heading>
      <div class="filters" role="search" aria-label="Search lorebooks">
        <TextField label="Find" type="search" grow value={find} placeholder="id or name" onInput={setFind} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => books.length === 0 ? (
          <Patience title="No lorebook yet" text="A lorebook is a book of entries about a world, a product, a person. An entry is told when one of its keys is spoken of. Make one with the button above, and name it in a room or a persona." />
        ) : (
          <>
            <ul class="records" aria-label="Lorebooks">
              {shown.map((each) => (
                <li key={each.id} class="record">
                  <p class="record-text"><a href={lorebookPath(each.id)}>{each.name || each.id}</a></p>
                  <div class="record-line small">
                    <code>{each.id}</code>
                    <span>{plural(each.entries, "entry", "entries")}</span>
                    <span>{plural(each.tokens, "token")} if all were told</span>
                  </div>
                </li>
              ))}
            </ul>
            {shown.length === 0 && <p class="muted">No lorebook is like that among those that are loaded.</p>}
            <More of={list} />
          </>
        )}
      </Loaded>
      {making && <NewLorebook onClose={() => setMaking(false)} />}
    </>
  );
}

function NewLorebook({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const [name, setName] = useState("");
  const change = useChange();
  const make = async (event: Event) => {
    event.preventDefault();
    if (await change.run(() => json("/lorebooks", { method: "POST", body: { id: id.trim(), name } }))) go(lorebookPath(id.trim()));
  };
  return (
    <Dialog title="A new lorebook" onClose={onClose}>
      <form onSubmit={(event) => void make(event)}>
        <TextField label="Id" value={id} required onInput={setId} />
        <TextField label="Name" value={name} onInput={setName} />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Make it</button></div>
      </form>
    </Dialog>
  );
}
