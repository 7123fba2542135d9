/** The request as sent to the provider, loaded on demand. */

import { useState } from "preact/hooks";

import { path } from "../api/client";
import { useResource } from "../api/resource";
import type { PromptPart } from "../api/types";
import { whole } from "../logic/format";
import { Prompt } from "./prompt";
import { Loaded } from "./states";

export function RequestView({ context, parts }: { context: string; parts: PromptPart[] }) {
  const [open, setOpen] = useState(false);
  return (
    <section aria-labelledby="request-heading">
      <h2 id="request-heading">Request</h2>
      {parts.length > 0 && (
        <Prompt parts={parts} look={(part) => `role-${part.role}`} note={(part) => `${whole(part.characters)} chars`} />
      )}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>As sent to the provider (JSON)</summary>
        {open && <Raw context={context} />}
      </details>
    </section>
  );
}

function Raw({ context }: { context: string }) {
  const read = useResource<unknown>(path`/contexts/${context}/request`);
  const [copied, setCopied] = useState(false);
  return (
    <Loaded of={read} rows={8}>
      {(request) => {
        const text = JSON.stringify(request, null, 2);
        const copy = () => void navigator.clipboard?.writeText(text).then(() => setCopied(true));
        return (
          <>
            <p><button type="button" onClick={copy}>{copied ? "Copied" : "Copy"}</button></p>
            <pre class="text json" tabIndex={0}>{text}</pre>
          </>
        );
      }}
    </Loaded>
  );
}
