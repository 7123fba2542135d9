/** Asks for a key where the server wants one. */

import { useState } from "preact/hooks";

import { keyWanted, useKey } from "../api/client";
import { Dialog } from "./dialog";
import { Shell } from "./states";

export function KeyDialog() {
  const [typed, setTyped] = useState("");
  if (!keyWanted.value) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed.trim()) useKey(typed.trim());
    setTyped("");
  };
  return (
    <Dialog title="A key, please" onClose={() => (keyWanted.value = "")}>
      <form onSubmit={submit}>
        <p role="alert">{keyWanted.value}</p>
        <label class="field">
          <span>Key</span>
          <input
            type="password" autocomplete="off" spellcheck={false} required autofocus
            value={typed} onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <p class="small">It stays in this tab, and is gone when the tab is closed. A key with the scope <code>read</code> sees everything of its tenant; with <code>write</code> it can change what is kept. Make one with:</p>
        <Shell>brimful callers create --name me --scopes read,write</Shell>
        <div class="buttons"><button type="submit" class="main">Use this key</button></div>
      </form>
    </Dialog>
  );
}
