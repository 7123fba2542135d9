/** The request as sent to the provider, loaded on demand. */

import { useState } from "preact/hooks";

import { BASE, json, key, path } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextView } from "../api/types";
import { whole } from "../logic/format";
import { apiCurl, requestCurl, requestPython } from "../logic/snippets";
import { CopyButton } from "./copy";
import { Prompt } from "./prompt";
import { Loaded } from "./states";

export function RequestView({ view }: { view: ContextView }) {
  const [open, setOpen] = useState(false);
  const where = path`/contexts/${view.id}/request`;
  const request = () => json<unknown>(where);
  const canSend = view.endpoint.wire !== "text";
  return (
    <section aria-labelledby="request-heading">
      <h2 id="request-heading">Request</h2>
      {view.prompt.length > 0 && (
        <Prompt parts={view.prompt} look={(part) => `role-${part.role}`} note={(part) => `${whole(part.characters)} chars`} />
      )}
      <div class="copies" role="group" aria-label="Copy the request">
        {canSend && <CopyButton label="Copy as curl" text={async () => requestCurl(view.endpoint, view.model, await request())} />}
        {canSend && <CopyButton label="Copy as Python" text={async () => requestPython(view.endpoint, view.model, await request())} />}
        <CopyButton label="Copy as JSON" text={async () => JSON.stringify(await request(), null, 2)} />
        <CopyButton label="Copy the API call of this page" text={() => apiCurl(location.origin + BASE + path`/contexts/${view.id}`, key.value !== "")} />
      </div>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>As sent to the provider (JSON)</summary>
        {open && <Raw where={where} />}
      </details>
    </section>
  );
}

function Raw({ where }: { where: string }) {
  const read = useResource<unknown>(where);
  return <Loaded of={read} rows={8}>{(request) => <pre class="text json" tabIndex={0}>{JSON.stringify(request, null, 2)}</pre>}</Loaded>;
}
