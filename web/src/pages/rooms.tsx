/** All rooms. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json } from "../api/client";
import { countModel } from "../api/counting";
import type { RoomList } from "../api/records";
import { usePages } from "../api/pages";
import { formatTime, plural } from "../logic/format";
import { roomPath } from "../logic/routes";
import { go } from "../router";
import { CountModel } from "../ui/count-model";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/fields";
import { post } from "../ui/first-context";
import { More } from "../ui/more";
import { Heading, Loaded, EmptyState, Shell } from "../ui/states";

export function RoomsPage() {
  const list = usePages<RoomList>("/rooms", { model: countModel.value }, "after");
  const [find, setFind] = useState("");
  const [creating, setCreating] = useState(false);
  const rooms = list.pages.flatMap((page) => page.rooms);
  const words = find.toLowerCase();
  const shown = rooms.filter((room) => `${room.id} ${room.name} ${room.user ?? ""} ${room.goal}`.toLowerCase().includes(words));
  return (
    <>
      <Heading title="Rooms"><button type="button" class="main" onClick={() => setCreating(true)}>New room</button></Heading>
      <div class="filters" role="search" aria-label="Search rooms">
        <TextField label="Search" type="search" grow value={find} placeholder="id, name, user or goal" onInput={setFind} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => rooms.length === 0 ? (
          <EmptyState title="No rooms yet" text="A room is a conversation: a channel, a session or a thread. Create one with the button above, or from a program:">
            <Shell>{post("/rooms", { id: "hello", user: "ada" })}</Shell>
          </EmptyState>
        ) : (
          <>
            <ul class="records" aria-label="Rooms">
              {shown.map((room) => (
                <li key={room.id} class="record">
                  <p class="record-text"><a href={roomPath(room.id)}>{room.name || room.id}</a></p>
                  {room.goal && <p class="small">{room.goal}</p>}
                  <div class="record-line small">
                    <code>{room.id}</code>
                    {room.user && <span class="muted">user {room.user}</span>}
                    {room.created > 0 && <span class="muted">created {formatTime(room.created)}</span>}
                    <span>{plural(room.tokens, "token")} of text in every context, plus its labels</span>
                  </div>
                </li>
              ))}
            </ul>
            {shown.length === 0 && <p class="muted">No match among the rooms loaded so far.</p>}
            <More of={list} />
          </>
        )}
      </Loaded>
      {creating && <NewRoom onClose={() => setCreating(false)} />}
    </>
  );
}

function NewRoom({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const change = useChange();
  const create = async (event: Event) => {
    event.preventDefault();
    if (await change.run(() => json("/rooms", { method: "POST", body: { id: id.trim() } }))) go(roomPath(id.trim()));
  };
  return (
    <Dialog title="New room" onClose={onClose}>
      <form onSubmit={(event) => void create(event)}>
        <TextField label="ID" value={id} required onInput={setId} hint="a unique name, such as support-42" />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Create</button></div>
      </form>
    </Dialog>
  );
}
