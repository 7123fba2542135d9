/** Search, create, edit, pin and remove memories. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path, query } from "../api/client";
import { countModel } from "../api/counting";
import type { Memory, MemoryChain, MemoryList } from "../api/records";
import { usePages } from "../api/pages";
import { useResource } from "../api/resource";
import type { ContextList } from "../api/types";
import { formatTime, percent, plural, whole } from "../logic/format";
import { endOf, endOfDay, originText, stateOf, STATES, useText } from "../logic/memories";
import { memoryOwner } from "../logic/names";
import { messagePath, whyPath } from "../logic/routes";
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
  const state = STATES.find(([value]) => value === filter("state"))?.[2] ?? {};
  const asOf = endOfDay(filter("as-of"));
  const list = usePages<MemoryList>(
    "/memories",
    { ...(asOf ? { as_of: asOf } : state), q: filter("q"), prefix: filter("id"), persona: filter("persona"), user: filter("user"), room: filter("room"), pinned: filter("pinned"), model: countModel.value },
    "before",
  );
  const [editing, setEditing] = useState<Memory | "new" | null>(null);
  const [removing, setRemoving] = useState<Memory | null>(null);
  const memories = list.pages.flatMap((page) => page.memories);
  const done = () => (setEditing(null), setRemoving(null), list.first.reload());
  const isFiltered = ["q", "id", "persona", "user", "room", "pinned", "state", "as-of"].some(filter);

  return (
    <>
      <Heading title="Memories"><a class="button" href="/memories/audit">Clean up</a><button type="button" class="main" onClick={() => setEditing("new")}>New memory</button></Heading>
      <div class="filters" role="search" aria-label="Search memories">
        <TextField label="Search" type="search" grow value={filter("q")} placeholder="words it contains" onInput={(q) => setQuery({ q })} />
        <TextField label="ID" type="search" value={filter("id")} placeholder="all" onInput={(id) => setQuery({ id })} />
        <TextField label="Persona" type="search" value={filter("persona")} placeholder="all" onInput={(persona) => setQuery({ persona })} />
        <TextField label="User" type="search" value={filter("user")} placeholder="all" onInput={(user) => setQuery({ user })} />
        <TextField label="Room" type="search" value={filter("room")} placeholder="all" onInput={(room) => setQuery({ room })} />
        <Choice label="Pinned" value={filter("pinned")} options={[["", "all"], ["true", "pinned"], ["false", "not pinned"]]} onInput={(pinned) => setQuery({ pinned })} />
        <Choice label="State" value={asOf ? "" : filter("state")} options={STATES.map(([value, label]) => [value, label])} onInput={(value) => setQuery({ state: value, "as-of": null })} />
        <TextField label="True on" type="date" value={filter("as-of")} onInput={(date) => setQuery({ "as-of": date, state: null })} />
        <CountModel />
      </div>
      {asOf && <p class="note">What was true at the end of this day, as far as it was not removed since. <button type="button" class="quiet" onClick={() => setQuery({ "as-of": null })}>Show today</button></p>}
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
  const [history, setHistory] = useState(false);
  const state = stateOf(memory);
  const hasHistory = memory.replaces !== null || Boolean(memory.archival?.replaced_by);
  const end = endOf(memory);
  const pin = async () => {
    const body = { pinned: !memory.pinned };
    if (await change.run(() => json(path`/memories/${memory.id}`, { method: "PUT", body }))) onChanged();
  };
  const review = async (verdict: "confirm" | "reject") => {
    const body = { [verdict]: [memory.id] };
    if (await change.run(() => json("/memories/review", { method: "POST", body }))) onChanged();
  };
  return (
    <li class="record">
      <p class="record-text">{memory.content}</p>
      <div class="record-line small">
        <span class="tag">{memory.type}</span>
        {memory.pinned && <span class="tag warn">pinned</span>}
        {state && <span class="tag warn">{state}</span>}
        <span><b class="num">{whole(memory.tokens)}</b> tokens of text{memory.pinned && " in every context, plus its label"}</span>
        <span class="muted">importance {percent(memory.importance)}</span>
        <span class="muted">{memoryOwner(memory)}</span>
        {memory.cluster && <span class="muted">cluster {memory.cluster}</span>}
        {memory.at > 0 && <span class="muted">{formatTime(memory.at)}{end !== null && ` until ${formatTime(end)}`}</span>}
        <Source memory={memory} />
        <span class="muted">{useText(memory)}</span>
        <code>{memory.id}</code>
        <span class="record-buttons">
          {hasHistory && <button type="button" class="quiet" aria-expanded={history} onClick={() => setHistory(!history)}>What replaced what<span class="hidden"> {memory.id}</span></button>}
          {memory.state === "proposed" && !memory.archived && (
            <>
              <button type="button" class="quiet" disabled={change.busy} onClick={() => void review("confirm")}>Confirm<span class="hidden"> {memory.id}</span></button>
              <button type="button" class="quiet" disabled={change.busy} onClick={() => void review("reject")}>Reject<span class="hidden"> {memory.id}</span></button>
            </>
          )}
          {!state && (
            <>
              <a class="quiet" href={whyPath(memory.id)}>Was it in the last context?<span class="hidden"> {memory.id}</span></a>
              <button type="button" class="quiet" aria-pressed={memory.pinned} disabled={change.busy} onClick={() => void pin()}>{memory.pinned ? "Unpin" : "Pin"}<span class="hidden"> {memory.id}</span></button>
              <button type="button" class="quiet" onClick={() => onEdit(memory)}>Edit<span class="hidden"> {memory.id}</span></button>
            </>
          )}
          <button type="button" class="quiet" onClick={() => onRemove(memory)}>Remove<span class="hidden"> {memory.id}</span></button>
        </span>
      </div>
      {history && <Chain id={memory.id} />}
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </li>
  );
}

/** Where it comes from, with a link to the message that is still there. */
function Source({ memory }: { memory: Memory }) {
  const text = originText(memory);
  if (!memory.source_message || memory.source_removed) return <span class="muted">{text}</span>;
  return <a href={messagePath(memory.source_message)}>{text}</a>;
}

/** The memories that replaced each other, oldest first. */
function Chain({ id }: { id: string }) {
  const chain = useResource<MemoryChain>(path`/memories/${id}/chain`);
  return (
    <Loaded of={chain} rows={2}>
      {({ memories }) => (
        <ol class="chain">
          {memories.map((each) => (
            <li key={each.id} aria-current={each.id === id ? "true" : undefined}>
              <span>{each.content}</span>
              <Validity memory={each} />
            </li>
          ))}
        </ol>
      )}
    </Loaded>
  );
}

function Validity({ memory }: { memory: Memory }) {
  const end = endOf(memory);
  const until = end === null ? (memory.archived ? "" : ", true now") : ` until ${formatTime(end)}`;
  return <span class="small muted">{formatTime(memory.at)}{until}</span>;
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
