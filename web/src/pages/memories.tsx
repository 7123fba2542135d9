/** Search, create, edit, pin and remove memories. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path, query } from "../api/client";
import { countModel } from "../api/counting";
import type { Memory, MemoryList } from "../api/records";
import { usePages } from "../api/pages";
import { useResource } from "../api/resource";
import type { ContextList } from "../api/types";
import { formatTime, percent, plural, whole } from "../logic/format";
import { memoryOwner } from "../logic/names";
import { whyPath } from "../logic/routes";
import { setQuery, route } from "../router";
import { CountModel } from "../ui/count-model";
import { Confirm } from "../ui/dialog";
import { Check, Choice, TextField } from "../ui/fields";
import { post } from "../ui/first-context";
import { MemoryDialog } from "../ui/memory-dialog";
import { More } from "../ui/more";
import { Heading, Loaded, EmptyState, Shell } from "../ui/states";

export function MemoriesPage() {
  const search = route.value.query;
  const filter = (name: string) => search.get(name) ?? "";
  const list = usePages<MemoryList>(
    "/memories",
    { q: filter("q"), prefix: filter("id"), persona: filter("persona"), user: filter("user"), room: filter("room"), pinned: filter("pinned"), model: countModel.value },
    "before",
  );
  const [editing, setEditing] = useState<Memory | "new" | null>(null);
  const [removing, setRemoving] = useState<Memory | null>(null);
  const memories = list.pages.flatMap((page) => page.memories);
  const done = () => (setEditing(null), setRemoving(null), list.first.reload());
  const isFiltered = ["q", "id", "persona", "user", "room", "pinned"].some(filter);

  return (
    <>
      <Heading title="Memories"><button type="button" class="main" onClick={() => setEditing("new")}>New memory</button></Heading>
      <div class="filters" role="search" aria-label="Search memories">
        <TextField label="Search" type="search" grow value={filter("q")} placeholder="words it contains" onInput={(q) => setQuery({ q })} />
        <TextField label="ID" type="search" value={filter("id")} placeholder="all" onInput={(id) => setQuery({ id })} />
        <TextField label="Persona" type="search" value={filter("persona")} placeholder="all" onInput={(persona) => setQuery({ persona })} />
        <TextField label="User" type="search" value={filter("user")} placeholder="all" onInput={(user) => setQuery({ user })} />
        <TextField label="Room" type="search" value={filter("room")} placeholder="all" onInput={(room) => setQuery({ room })} />
        <Choice label="Pinned" value={filter("pinned")} options={[["", "all"], ["true", "pinned"], ["false", "not pinned"]]} onInput={(pinned) => setQuery({ pinned })} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => memories.length === 0 ? <NoMemories filtered={isFiltered} room={filter("room")} persona={filter("persona")} /> : (
          <>
            <p class="small muted" role="status">{plural(memories.length, "memory", "memories")}{list.more && " so far"}, {plural(memories.reduce((sum, each) => sum + each.tokens, 0), "token")} of text in total</p>
            <ul class="records" aria-label="Memories">
              {memories.map((each) => <MemoryRow key={each.id} memory={each} onEdit={setEditing} onRemove={setRemoving} onChanged={list.first.reload} />)}
            </ul>
            <More of={list} />
          </>
        )}
      </Loaded>
      {editing && <MemoryDialog memory={editing === "new" ? null : editing} onDone={done} onClose={() => setEditing(null)} />}
      {removing && <Remove memory={removing} onDone={done} onClose={() => setRemoving(null)} />}
    </>
  );
}

function MemoryRow({ memory, onEdit, onRemove, onChanged }: {
  memory: Memory;
  onEdit: (memory: Memory) => void;
  onRemove: (memory: Memory) => void;
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
        <span><b class="num">{whole(memory.tokens)}</b> tokens of text{memory.pinned && " in every context, plus its label"}</span>
        <span class="muted">importance {percent(memory.importance)}</span>
        <span class="muted">{memoryOwner(memory)}</span>
        {memory.cluster && <span class="muted">cluster {memory.cluster}</span>}
        {memory.at > 0 && <span class="muted">{formatTime(memory.at)}</span>}
        <span class="muted">used {plural(memory.accesses, "time")}</span>
        <code>{memory.id}</code>
        <span class="record-buttons">
          <a class="quiet" href={whyPath(memory.id)}>Was it in the last context?<span class="hidden"> {memory.id}</span></a>
          <button type="button" class="quiet" aria-pressed={memory.pinned} disabled={change.busy} onClick={() => void pin()}>{memory.pinned ? "Unpin" : "Pin"}<span class="hidden"> {memory.id}</span></button>
          <button type="button" class="quiet" onClick={() => onEdit(memory)}>Edit<span class="hidden"> {memory.id}</span></button>
          <button type="button" class="quiet" onClick={() => onRemove(memory)}>Remove<span class="hidden"> {memory.id}</span></button>
        </span>
      </div>
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </li>
  );
}

function Remove({ memory, onDone, onClose }: { memory: Memory; onDone: () => void; onClose: () => void }) {
  const change = useChange();
  const [erase, setErase] = useState(false);
  const remove = async () => {
    const where = path`/memories/${memory.id}` + (erase ? "?erase=true" : "");
    if (await change.run(() => json(where, { method: "DELETE" }))) onDone();
  };
  return (
    <Confirm title="Remove this memory?" action="Remove" busy={change.busy} error={change.error} onYes={() => void remove()} onClose={onClose}>
      <blockquote>{memory.content}</blockquote>
      <p>Future contexts cannot include it. This frees <b class="num">{whole(memory.tokens)}</b> tokens wherever it would have been included.</p>
      <Check label="Also erase its text from past contexts" checked={erase} onInput={setErase} />
    </Confirm>
  );
}

function NoMemories({ filtered, room, persona }: { filtered: boolean; room: string; persona: string }) {
  if (filtered) return <EmptyState title="No matching memories" text="Try removing a filter.">{(room || persona) && <OfUsers room={room} persona={persona} />}</EmptyState>;
  return (
    <EmptyState title="No memories yet" text="A memory is a fact that is added to the context when it is relevant. Create one with the button above, or from a program:">
      <Shell>{post("/memories", { content: "Ada was promised a refund.", user: "ada" })}</Shell>
    </EmptyState>
  );
}

/** Rooms and personas also use the memories of the users they talk to. */
function OfUsers({ room, persona }: { room: string; persona: string }) {
  const contexts = useResource<ContextList>(`/contexts${query({ room, persona, limit: 50 })}`).data?.contexts ?? [];
  const users = [...new Set(contexts.map((each) => each.user))].filter((user) => user !== null);
  if (users.length === 0) return null;
  const links = users.map((user) => <li key={user}><a href={`/memories?${new URLSearchParams({ user })}`}>Memories of user {user}</a></li>);
  return <><p>These are only the memories that belong to the {room ? "room" : "persona"} itself. Its contexts also use:</p><ul>{links}</ul></>;
}
