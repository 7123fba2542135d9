/** The request as sent to the provider, message by message, with what was left out in its place. */

import { useMemo, useState } from "preact/hooks";

import { BASE, json, key, path } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextView, Decision, ItemView, Omission, RequestMessage, RequestMessages } from "../api/types";
import { included, isLine } from "../logic/candidates";
import { plural, reasonText, whole } from "../logic/format";
import { collapsed, collapsedText, cutText, omissionText, pieces, requestRows, type Row } from "../logic/request";
import { tabPath } from "../logic/routes";
import { apiCurl, requestCurl, requestPython } from "../logic/snippets";
import { CopyButton } from "./copy";
import { Fold } from "./fold";
import { Explain } from "./help";
import { Loaded } from "./states";

const EDGE = 4; // rows at either end of a long request
const FIRST = 10; // items of what was left out, until all are shown
const MAX_LISTED = 200; // the table of candidates has all

export function RequestView({ view }: { view: ContextView }) {
  const where = path`/contexts/${view.id}/request`;
  const request = () => json<unknown>(where);
  const canSend = view.endpoint.wire !== "text";
  const read = useResource<RequestMessages>(path`/contexts/${view.id}/messages`);
  return (
    <section aria-labelledby="request-heading">
      <h2 id="request-heading">Request</h2>
      <Loaded of={read} rows={10}>{(found) => <Messages view={view} found={found} />}</Loaded>
      <div class="copies" role="group" aria-label="Copy the request">
        {canSend && <CopyButton label="Copy as curl" text={async () => requestCurl(view.endpoint, view.model, await request())} />}
        {canSend && <CopyButton label="Copy as Python" text={async () => requestPython(view.endpoint, view.model, await request())} />}
        <CopyButton label="Copy as JSON" text={async () => JSON.stringify(await request(), null, 2)} />
        <CopyButton label="Copy the API call of this page" text={() => apiCurl(location.origin + BASE + path`/contexts/${view.id}`, key.value !== "")} />
      </div>
      <Fold title="As sent to the provider (JSON)">{() => <Raw where={where} />}</Fold>
    </section>
  );
}

function Raw({ where }: { where: string }) {
  const read = useResource<unknown>(where);
  return <Loaded of={read} rows={8}>{(request) => <pre class="text json" tabIndex={0}>{JSON.stringify(request, null, 2)}</pre>}</Loaded>;
}

interface Shown {
  view: ContextView;
  byId: Map<string, Decision>;
}

function Messages({ view, found }: { view: ContextView; found: RequestMessages }) {
  const [all, setAll] = useState(false);
  const byId = useMemo(() => new Map(view.decisions.map((each) => [each.id, each])), [view.decisions]);
  if (found.messages.length === 0) return null;
  const [first, middle, last] = collapsed(requestRows(found), EDGE);
  const rows = (list: Row[]) => list.map((row) => <RequestRow key={rowKey(row)} row={row} view={view} byId={byId} />);
  return (
    <>
      <p class="small muted">{plural(found.messages.length, "message")}, {plural(view.tokens, "token")} ({view.basis}){found.other_tokens > 0 && `, with ${whole(found.other_tokens)} of tools and format`}. Click a message to see all of it. Gray lines are what was left out or cut.{view.decisions.some((each) => each.form !== "full") && <> Cut items have a shorter form. <Explain term="Form" /></>}</p>
      <ol class="prompt" aria-label="Messages of the request">
        {rows(first)}
        {all ? rows(middle) : middle.length > 0 && <li class="elided"><button type="button" class="quiet" onClick={() => setAll(true)}>Show {collapsedText(middle)}</button></li>}
        {rows(last)}
      </ol>
    </>
  );
}

function rowKey(row: Row): string {
  return "message" in row ? `message ${row.index}` : `out ${row.omission.index} ${row.omission.component} ${row.omission.summary} ${row.omission.items.length}`;
}

function RequestRow({ row, view, byId }: { row: Row } & Shown) {
  return "message" in row ? <MessageRow message={row.message} view={view} byId={byId} /> : <OmissionRow omission={row.omission} view={view} byId={byId} />;
}

function MessageRow({ message, view, byId }: { message: RequestMessage } & Shown) {
  const items = message.items.flatMap((id) => byId.get(id) ?? []);
  const title = (
    <>
      <span class="role">{message.role}{message.name && ` (${message.name})`}</span>
      <span class="prompt-text">{message.text.slice(0, 400) || "(empty)"}</span>
      <span class="num muted small">{plural(message.tokens, "token")}</span>
    </>
  );
  return (
    <li class={`sent role-${message.role}`}>
      <Fold title={title}>
        {() => (
          <>
            <pre class="text" tabIndex={0}>{message.text}</pre>
            {items.length > 0 && <Items items={items} view={view} note={(each) => plural(each.cost, "token")} />}
          </>
        )}
      </Fold>
      {items.filter((each) => each.form !== "full").map((each) => <Cut key={each.id} decision={each} view={view} />)}
    </li>
  );
}

/** What was left out in one place, with a link to the reason of each item. */
function OmissionRow({ omission, view, byId }: { omission: Omission } & Shown) {
  const items = omission.items.flatMap((id) => byId.get(id) ?? []);
  const text = omissionText(omission, items.some(isLine));
  return (
    <li class="omission">
      {items.length === 0 ? <p>{text}: the newer ones already fill the window</p> : (
        <Fold title={text}>
          {() => <Items items={items} view={view} note={(each) => `${plural(each.tokens, "token")}, ${reasonText(each.reason)}`} />}
        </Fold>
      )}
    </li>
  );
}

/** Items as links to their panels. */
function Items({ items, view, note }: { items: Decision[]; view: ContextView; note: (item: Decision) => string }) {
  const [all, setAll] = useState(false);
  const listed = items.slice(0, all ? MAX_LISTED : FIRST);
  const rest = items.length - listed.length;
  return (
    <>
      <ul class="items">
        {listed.map((each) => (
          <li key={each.id}>
            <a href={tabPath(view.id, "request", each.id)}>{each.excerpt || each.id}</a> <span class="num muted small">{note(each)}</span>
          </li>
        ))}
      </ul>
      {rest > 0 && (all ? <p class="small muted">and {whole(rest)} more, under <a href={tabPath(view.id, "candidates")}>Candidates</a></p> : <button type="button" class="quiet" onClick={() => setAll(true)}>Show {whole(rest)} more</button>)}
    </>
  );
}

/** What a shortened item lost: its text, with what the model did not see in gray. */
function Cut({ decision, view }: { decision: Decision; view: ContextView }) {
  const reason = <a href={tabPath(view.id, "request", decision.id)}>Why?</a>;
  if (decision.kind.startsWith("media-") || !included(decision)) return <p class="cut small">{cutText(decision)}. {reason}</p>;
  return <div class="cut small"><Fold title={cutText(decision)}>{() => <><CutText where={path`/contexts/${view.id}/items/${decision.id}`} /> {reason}</>}</Fold></div>;
}

function CutText({ where }: { where: string }) {
  const read = useResource<ItemView>(where);
  return (
    <Loaded of={read} rows={3}>
      {({ text, seen, characters }) => (
        <pre class="text" tabIndex={0} aria-label="The whole text; what was cut is gray">
          {pieces(text, seen).map((piece, index) => (piece.isSeen ? piece.text : <del key={index}>{piece.text}</del>))}
          {characters > text.length && `… (the first ${whole(text.length)} of ${whole(characters)} characters)`}
        </pre>
      )}
    </Loaded>
  );
}
