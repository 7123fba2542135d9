/** All rooms. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json } from "../api/client";
import { countModel } from "../api/counting";
import type { RoomList } from "../api/kept";
import { usePages } from "../api/pages";
import { moment, plural } from "../logic/format";
import { roomPath } from "../logic/routes";
import { go } from "../router";
import { CountModel } from "../ui/count-model";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/fields";
import { More } from "../ui/more";
import { Heading, Loaded, Patience, Shell } from "../ui/states";

export function RoomsPage() {
  const list = usePages<RoomList>("/rooms", { model: countModel.value }, "after");
  const [find, setFind] = useState("");
  const [making, setMaking] = useState(false);
  const rooms = list.pages.flatMap((page) => page.rooms);
  const words = find.toLowerCase();
  const shown = rooms.filter((room) => `${room.id} ${room.name} ${room.user ?? ""} ${room.goal}`.toLowerCase().includes(words));
  return (
    <>
      <Heading title="Rooms"><button type="button" class="main" onClick={() => setMaking(true)}>New room</button></Heading>
      <div class="filters" role="search" aria-label="Search rooms">
        <TextField label="Find" type="search" grow value={find} placeholder="id, name, user or goal" onInput={setFind} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => rooms.length === 0 ? (
          <Patience title="No room yet" text="A room is a conversation: a channel, a session, a thread. It is made by the first message in it.">
            <Shell>brimful chat --room hello --model gpt-4o-mini</Shell>
          </Patience>
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
                    {room.created > 0 && <span class="muted">since {moment(room.created)}</span>}
                    <span>{plural(room.tokens, "token")} in every context</span>
                  </div>
                </li>
              ))}
            </ul>
            {shown.length === 0 && <p class="muted">No room is like that among those that are loaded.</p>}
            <More of={list} />
          </>
        )}
      </Loaded>
      {making && <NewRoom onClose={() => setMaking(false)} />}
    </>
  );
}

function NewRoom({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const change = useChange();
  const make = async (event: Event) => {
    event.preventDefault();
    if (await change.run(() => json("/rooms", { method: "POST", body: { id: id.trim() } }))) go(roomPath(id.trim()));
  };
  return (
    <Dialog title="A new room" onClose={onClose}>
      <form onSubmit={(event) => void make(event)}>
        <TextField label="Id" value={id} required onInput={setId} hint="a name of its own, such as support-42" />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Make it</button></div>
      </form>
    </Dialog>
  );
}
