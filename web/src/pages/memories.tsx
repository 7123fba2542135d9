/** What is remembered: search, write, pin, forget. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { countModel } from "../api/counting";
import type { Memory, MemoryList } from "../api/kept";
import { usePages } from "../api/pages";
import { moment, percent, plural, whole } from "../logic/format";
import { ask, route } from "../router";
import { CountModel } from "../ui/count-model";
import { Confirm } from "../ui/dialog";
import { Check, Choice, TextField } from "../ui/fields";
import { MemoryDialog } from "../ui/memory-dialog";
import { More } from "../ui/more";
import { Heading, Loaded, Patience, Shell } from "../ui/states";

export function MemoriesPage() {
  const search = route.value.query;
  const said = (name: string) => search.get(name) ?? "";
  const list = usePages<MemoryList>(
    "/memories",
    { q: said("q"), persona: said("persona"), user: said("user"), room: said("room"), pinned: said("pinned"), model: countModel.value },
    "before",
  );
  const [editing, setEditing] = useState<Memory | "new" | null>(null);
  const [forgetting, setForgetting] = useState<Memory | null>(null);
  const memories = list.pages.flatMap((page) => page.memories);
  const done = () => (setEditing(null), setForgetting(null), list.first.reload());
  const isFiltered = ["q", "persona", "user", "room", "pinned"].some(said);

  return (
    <>
      <Heading title="Memories"><button type="button" class="main" onClick={() => setEditing("new")}>New memory</button></Heading>
      <div class="filters" role="search" aria-label="Search memories">
        <TextField label="Find" type="search" grow value={said("q")} placeholder="words that are in it" onInput={(q) => ask({ q })} />
        <TextField label="Persona" type="search" value={said("persona")} placeholder="all" onInput={(persona) => ask({ persona })} />
        <TextField label="User" type="search" value={said("user")} placeholder="all" onInput={(user) => ask({ user })} />
        <TextField label="Room" type="search" value={said("room")} placeholder="all" onInput={(room) => ask({ room })} />
        <Choice label="Pinned" value={said("pinned")} options={[["", "all"], ["true", "pinned"], ["false", "not pinned"]]} onInput={(pinned) => ask({ pinned })} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => memories.length === 0 ? <NoMemories filtered={isFiltered} /> : (
          <>
            <p class="small muted" role="status">{plural(memories.length, "memory", "memories")}{list.more && " so far"}, {plural(memories.reduce((sum, each) => sum + each.tokens, 0), "token")} in all</p>
            <ul class="records" aria-label="Memories">
              {memories.map((each) => <MemoryRow key={each.id} memory={each} onEdit={setEditing} onForget={setForgetting} onChanged={list.first.reload} />)}
            </ul>
            <More of={list} />
          </>
        )}
      </Loaded>
      {editing && <MemoryDialog memory={editing === "new" ? null : editing} onDone={done} onClose={() => setEditing(null)} />}
      {forgetting && <Forget memory={forgetting} onDone={done} onClose={() => setForgetting(null)} />}
    </>
  );
}

function MemoryRow({ memory, onEdit, onForget, onChanged }: {
  memory: Memory;
  onEdit: (memory: Memory) => void;
  onForget: (memory: Memory) => void;
  onChanged: () => void;
}) {
  const change = useChange();
  const pin = async () => {
    const body = { pinned: !memory.pinned };
    if (await change.run(() => json(path`/memories/${memory.id}`, { method: "PUT", body }))) onChanged();
  };
  return (
    <li class="record">
      <p class="record-text">{memory.content}</p>
      <div class="record-line small">
        <span class="tag">{memory.type}</span>
        {memory.pinned && <span class="tag warn">pinned</span>}
        <span><b class="num">{whole(memory.tokens)}</b> tokens{memory.pinned && " in every context"}</span>
        <span class="muted">importance {percent(memory.importance)}</span>
        <span class="muted">{owner(memory)}</span>
        {memory.at > 0 && <span class="muted">{moment(memory.at)}</span>}
        <span class="muted">used {plural(memory.accesses, "time")}</span>
        <code>{memory.id}</code>
        <span class="record-buttons">
          <button type="button" class="quiet" aria-pressed={memory.pinned} disabled={change.busy} onClick={() => void pin()}>{memory.pinned ? "Unpin" : "Pin"}<span class="hidden"> {memory.id}</span></button>
          <button type="button" class="quiet" onClick={() => onEdit(memory)}>Edit<span class="hidden"> {memory.id}</span></button>
          <button type="button" class="quiet" onClick={() => onForget(memory)}>Forget<span class="hidden"> {memory.id}</span></button>
        </span>
      </div>
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </li>
  );
}

/** Whose a memory is. */
function owner({ persona, user, room }: Memory): string {
  const whose = [persona && `persona ${persona}`, user && `user ${user}`, room && `room ${room}`].filter(Boolean);
  return whose.length > 0 ? whose.join(", ") : "everybody's";
}

function Forget({ memory, onDone, onClose }: { memory: Memory; onDone: () => void; onClose: () => void }) {
  const change = useChange();
  const [erase, setErase] = useState(false);
  const forget = async () => {
    const where = path`/memories/${memory.id}` + (erase ? "?erase=true" : "");
    if (await change.run(() => json(where, { method: "DELETE" }))) onDone();
  };
  return (
    <Confirm title="Forget this memory?" action="Forget it" busy={change.busy} error={change.error} onYes={() => void forget()} onClose={onClose}>
      <blockquote>{memory.content}</blockquote>
      <p>No later context will have it: <b class="num">−{whole(memory.tokens)}</b> tokens wherever it would have been in.</p>
      <Check label="Take its text out of past contexts, too" checked={erase} onInput={setErase} />
    </Confirm>
  );
}

function NoMemories({ filtered }: { filtered: boolean }) {
  if (filtered) return <Patience title="No memory is like that" text="Take something out of the search above." />;
  return (
    <Patience title="Nothing is remembered yet" text="A memory is a fact that comes back when it matters. Write one with the button above, or from a shell:">
      <Shell>{'brimful memory add "Ada was promised a refund." --user ada'}</Shell>
    </Patience>
  );
}
