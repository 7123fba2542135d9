/** One room: its settings, and the chat. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { useDraft } from "../api/draft";
import type { Room } from "../api/records";
import { useResource } from "../api/resource";
import { lines } from "../logic/text";
import { timelinePath } from "../logic/routes";
import { go } from "../router";
import { CharacterForm, mergedCharacter, ROOM_FIELDS } from "../ui/character-form";
import { Confirm } from "../ui/dialog";
import { TextArea, TextField } from "../ui/fields";
import { later } from "../ui/later";
import { toDraft, toNote, NotesForm } from "../ui/notes-form";
import { Heading, Loaded } from "../ui/states";
import { TokenCost } from "../ui/token-cost";

const Chat = later(() => import("../ui/chat").then((part) => part.Chat));

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
      <Chat key={id} room={id} persona={read.data?.persona ?? null} />
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
