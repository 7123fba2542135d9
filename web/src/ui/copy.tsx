/** Buttons that copy a text. */

import { useState } from "preact/hooks";

/** Copy what `text` returns, now or later, and say so. */
export function CopyButton({ label, text }: { label: string; text: () => string | Promise<string> }) {
  const [state, setState] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await text());
      setState("Copied");
    } catch {
      setState("Not copied: the browser does not allow it here");
    }
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>{label}</button>
      <span class="small muted" role="status">{state}</span>
    </>
  );
}
