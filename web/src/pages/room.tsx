/** One room: its settings and messages. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { countModel } from "../api/counting";
import { useDraft } from "../api/draft";
import type { Message, MessageList, Room } from "../api/records";
import { usePages } from "../api/pages";
import { useResource } from "../api/resource";
import { lines, messageText } from "../logic/text";
import { evidence, formatTime, plural, relevance, whole } from "../logic/format";
import { contextPath, timelinePath } from "../logic/routes";
import { setQuery, go, route } from "../router";
import { CharacterForm, mergedCharacter, ROOM_FIELDS } from "../ui/character-form";
import { Confirm } from "../ui/dialog";
import { TextArea, TextField } from "../ui/fields";
import { More } from "../ui/more";
import { toDraft, toNote, NotesForm } from "../ui/notes-form";
import { Heading, Loaded } from "../ui/states";
import { TokenCost } from "../ui/token-cost";

export function RoomPage({ id }: { id: string }) {
  const read = useResource<Room>(path`/rooms/${id}`);
  const [removing, setRemoving] = useState(false);
  const change = useChange();
  const remove = async () => {
    if (await change.run(() => json(path`/rooms/${id}`, { method: "DELETE" }))) go("/rooms");
  };
  return (
    <>
      <Heading title={read.data?.name || id}>
        <a class="button" href={`/?${new URLSearchParams({ room: id })}`}>Contexts</a>
        <a class="button" href={timelinePath(id)}>Timeline</a>
        <a class="button" href={`/memories?${new URLSearchParams({ room: id })}`}>Memories</a>
        <button type="button" class="danger" onClick={() => setRemoving(true)}>Remove</button>
      </Heading>
      <Loaded of={read} rows={4}>{(room) => <Settings key={JSON.stringify(room)} room={room} onSaved={read.reload} />}</Loaded>
      <Messages room={id} />
      {removing && (
        <Confirm title={`Remove ${read.data?.name || id}?`} action="Remove" busy={change.busy} error={change.error} onYes={() => void remove()} onClose={() => setRemoving(false)}>
          <p>This also removes its messages, memories, contexts and answers.</p>
        </Confirm>
      )}
    </>
  );
}

function Settings({ room, onSaved }: { room: Room; onSaved: () => void }) {
  const { draft, put, changes } = useDraft({
    name: room.name, user: room.user ?? "", goal: room.goal, focus: room.focus, headers: room.headers.join("\n"), lorebooks: room.lorebooks.join("\n"),
    notes: room.notes.map(toDraft), character: room.character,
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const body = changes(({ user, headers, lorebooks, notes, ...rest }) => (
      { ...rest, user: user || null, headers: lines(headers), lorebooks: lines(lorebooks), notes: notes.map(toNote) }
    ));
    const where = path`/rooms/${room.id}`;
    const saved = await change.run(async () => json(where, { method: "PUT", body: { ...body, ...(await mergedCharacter(where, room, body)) } }));
    if (saved) onSaved();
  };
  return (
    <details class="form">
      <summary>Room settings</summary>
      <form aria-label="Room" onSubmit={(event) => void save(event)}>
        <div class="columns">
          <TextField label="Name" value={draft.name} onInput={(name) => put({ name })} />
          <TextField label="User" value={draft.user} placeholder="none" onInput={(user) => put({ user })} />
        </div>
        <TextField label="Focus, one more thing to search for" value={draft.focus} placeholder="none" onInput={(focus) => put({ focus })} />
        <TextArea label="Goal" rows={2} value={draft.goal} onInput={(goal) => put({ goal })} hint={<>in every context: <TokenCost text={draft.goal} was={room.goal} /></>} />
        <div class="columns">
          <TextArea label="Headers, one per line" rows={3} value={draft.headers} onInput={(headers) => put({ headers })} hint={<>in every context: <TokenCost text={draft.headers} was={room.headers.join("\n")} /></>} />
          <TextArea label="Lorebooks, one id per line" rows={3} value={draft.lorebooks} onInput={(lorebooks) => put({ lorebooks })} />
        </div>
        <CharacterForm character={draft.character} fields={ROOM_FIELDS} title="Character in this room" begin="Add a character for this room" onInput={(character) => put({ character })} />
        <NotesForm notes={draft.notes} onInput={(notes) => put({ notes })} />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Save</button></div>
      </form>
    </details>
  );
}

function Messages({ room }: { room: string }) {
  const q = route.value.query.get("q") ?? "";
  const list = usePages<MessageList>(path`/rooms/${room}/messages`, { q, limit: 50, model: countModel.value }, "before");
  const [removing, setRemoving] = useState<Message | null>(null);
  const change = useChange();
  const messages = list.pages.flatMap((page) => page.messages);
  const remove = async (message: Message) => {
    if (await change.run(() => json(path`/messages/${message.id}`, { method: "DELETE" }))) {
      setRemoving(null);
      list.first.reload();
    }
  };
  return (
    <section aria-labelledby="messages-heading">
      <h2 id="messages-heading">{q ? "Search results" : "Messages"}</h2>
      <div class="filters" role="search" aria-label="Search messages">
        <TextField label="Search" type="search" grow value={q} placeholder="by words or meaning" onInput={(text) => setQuery({ q: text })} />
      </div>
      <Loaded of={list.first}>
        {() => (
          <>
            {messages.length === 0 && <p class="muted">{q ? "No matching messages." : "No messages yet."}</p>}
            <ol class="records" aria-label="Messages">
              {messages.map((each) => (
                <li key={each.id} class={`record role-${each.role}`}>
                  <p class="record-text">{messageText(each.content)}</p>
                  <div class="record-line small">
                    <b>{each.sender || each.role}</b>{each.sender && <span class="muted">{each.role}</span>}
                    <span class="muted">{formatTime(each.at)}</span>
                    <span>{plural(each.tokens, "token")} of text</span>
                    {each.relevance !== null && <span class="muted" title={evidence(each.parts)}>relevance {relevance(each.relevance)}</span>}
                    <code>{each.id}</code>
                    <span class="record-buttons">{each.context && <a class="quiet" href={contextPath(each.context)}>What the model saw<span class="hidden"> for {each.id}</span></a>} <button type="button" class="quiet" onClick={() => setRemoving(each)}>Remove<span class="hidden"> {each.id}</span></button></span>
                  </div>
                </li>
              ))}
            </ol>
            <More of={list} />
          </>
        )}
      </Loaded>
      {removing && (
        <Confirm title="Remove this message?" action="Remove" busy={change.busy} error={change.error} onYes={() => void remove(removing)} onClose={() => setRemoving(null)}>
          <blockquote>{messageText(removing.content)}</blockquote>
          <p>Future contexts cannot include it. This frees <b class="num">{whole(removing.tokens)}</b> tokens wherever it would have been included.</p>
        </Confirm>
      )}
    </section>
  );
}
