/** Asks for an API key if the server requires one. */

import { useState } from "preact/hooks";

import { keyPrompt, useKey } from "../api/client";
import { Dialog } from "./dialog";
import { Shell } from "./states";

export function KeyDialog() {
  const [typed, setTyped] = useState("");
  if (!keyPrompt.value) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed.trim()) useKey(typed.trim());
    setTyped("");
  };
  return (
    <Dialog title="API key required" onClose={() => (keyPrompt.value = "")}>
      <form onSubmit={submit}>
        <p role="alert">{keyPrompt.value}</p>
        <label class="field">
          <span>API key</span>
          <input
            type="password" autocomplete="off" spellcheck={false} required autofocus
            value={typed} onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <p class="small">The key is stored in this tab and deleted when you close it. You need the scope <code>read</code> to see your tenant's data, and <code>write</code> to edit it. Create a key with:</p>
        <Shell>brimful api-key add --name me --scopes read,write</Shell>
        <div class="buttons"><button type="submit" class="main">Use key</button></div>
      </form>
    </Dialog>
  );
}
