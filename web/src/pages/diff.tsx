/** Two contexts side by side, and how much of the requests is identical. */

import { useState } from "preact/hooks";

import { path } from "../api/client";
import { useResource } from "../api/resource";
import type { ComparedPart, ContextList, ContextRow, Difference } from "../api/types";
import { rowBands } from "../logic/components";
import { formatTime, percent, plural, whole } from "../logic/format";
import type { ChangeOrder } from "../logic/differences";
import { personaName, roomName } from "../logic/names";
import { collapsed } from "../logic/request";
import { contextPath, diffPath } from "../logic/routes";
import { go, route, setQuery } from "../router";
import { BarLegend, BudgetUse, ExchangeLines, WindowBar } from "../ui/bar";
import { Changes } from "../ui/changes";
import { Choice, TextField } from "../ui/fields";
import { FirstContext } from "../ui/first-context";
import { Explain } from "../ui/help";
import { Heading, Loaded } from "../ui/states";

export function DiffPage({ before, after }: { before: string; after: string }) {
  return (
    <>
      <Heading title="Diff">
        {before && <a class="button" href={diffPath(after, before)}>Swap</a>}
      </Heading>
      <Which key={`${before} ${after}`} before={before} after={after} />
      {before && <Compared before={before} after={after} />}
    </>
  );
}

function Which({ before, after }: { before: string; after: string }) {
  const recent = useResource<ContextList>("/contexts?limit=50");
  const [from, setFrom] = useState(before);
  const [to, setTo] = useState(after);
  const rows = recent.data?.contexts ?? [];
  const submit = (event: Event) => {
    event.preventDefault();
    if (from.trim() && to.trim()) go(diffPath(from.trim(), to.trim()));
  };
  const pick = (id: string) => {
    const [first, second] = [from, id].map((each) => rows.findIndex((row) => row.id === each));
    if (id === from) setFrom("");
    else if (first === undefined || second === undefined || first < 0) setFrom(id);
    else go(first > second ? diffPath(from, id) : diffPath(id, from)); // the older one is before
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <TextField label="Before" value={from} list={rows.map((row) => row.id)} onInput={setFrom} placeholder="context id" required />
        <TextField label="After" value={to} list={rows.map((row) => row.id)} onInput={setTo} placeholder="context id" required />
        <button type="submit" class="main">Compare</button>
      </form>
      {!before && recent.data && (rows.length === 0 ? <FirstContext /> : <Recent rows={rows} chosen={from} onPick={pick} />)}
    </>
  );
}

function Recent({ rows, chosen, onPick }: { rows: ContextRow[]; chosen: string; onPick: (id: string) => void }) {
  const one = rows.some((row) => row.id === chosen);
  return (
    <section aria-labelledby="recent-heading">
      <h2 id="recent-heading">Recent contexts</h2>
      <p role="status">{one ? "Now choose the context to compare it with. The older of the two becomes “Before”." : "Choose two contexts to compare."}</p>
      <BarLegend rows={rows} />
      <ul class="picks">
        {rows.map((row) => (
          <li key={row.id}>
            <button type="button" class="card" aria-pressed={row.id === chosen} onClick={() => onPick(row.id)}>
              <span><b>{personaName(row) || row.model}</b> in <b>{roomName(row)}</b> <span class="muted small">{formatTime(row.at)}</span>{row.id === chosen && <> <span class="tag">chosen</span></>}</span>
              <ExchangeLines {...row} />
              <WindowBar bands={rowBands(row)} window={row.window} />
              <code class="small">{row.id}</code>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const ORDERS = [["tokens", "most tokens first"], ["relevance", "most relevant first"]] as const;

function Compared({ before, after }: { before: string; after: string }) {
  const read = useResource<Difference>(path`/contexts/${before}/diff/${after}`);
  const order: ChangeOrder = route.value.query.get("order") === "relevance" ? "relevance" : "tokens";
  return (
    <Loaded of={read} rows={8}>
      {(found) => (
        <>
          <div class="sides">
            <Side title="Before" row={found.before} />
            <Side title="After" row={found.after} more={found.after.tokens - found.before.tokens} />
          </div>
          <BarLegend rows={[found.before, found.after]} />
          <div class="filters"><Choice label="Order of the changes" value={order} options={ORDERS} onInput={(value) => setQuery({ order: value === "tokens" ? null : value })} /></div>
          <Changes entered={found.entered} left={found.left} changed={found.changed} context={after} from={before} order={order} />
          <Prefix found={found} />
        </>
      )}
    </Loaded>
  );
}

function Side({ title, row, more }: { title: string; row: ContextRow; more?: number }) {
  return (
    <section class="side" aria-label={title}>
      <h2>{title}</h2>
      <p><a href={contextPath(row.id)}>{personaName(row) || row.model} in {roomName(row)}</a> <span class="muted small">{formatTime(row.at)}</span></p>
      <ExchangeLines {...row} />
      <WindowBar bands={rowBands(row)} window={row.window} />
      <p class="small">
        <BudgetUse row={row} change={more} /> · window {whole(row.window)} · {row.model} · {row.policy} · {whole(row.candidates - row.left_out)} of {plural(row.candidates, "candidate")} included
      </p>
    </section>
  );
}

function Prefix({ found }: { found: Difference }) {
  const same = found.messages.filter((each) => each.same).length;
  return (
    <section aria-labelledby="prefix-heading">
      <h2 id="prefix-heading">New request</h2>
      <p>
        The first <b class="num">{percent(found.prefix_share)}</b> (<span class="num">{whole(found.common_prefix)}</span> bytes) is identical, so a prompt cache can reuse it. <Explain term="Prefix" />
      </p>
      <ol class="prompt" aria-label="Messages of the request">
        <Run messages={found.messages.slice(0, same)} note={() => "= unchanged"} />
        <Run messages={found.messages.slice(same)} note={(index) => (index === 0 ? "↳ differs from here" : "")} />
      </ol>
    </section>
  );
}

const EDGE = 3; // messages at either end of those that are the same, and of those that differ

/** Messages that are all the same as before, or all different. The middle of many is collapsed. */
function Run({ messages, note }: { messages: ComparedPart[]; note: (index: number) => string }) {
  const [all, setAll] = useState(false);
  const [first, middle, last] = collapsed(messages.map((message, index) => ({ message, index })), EDGE);
  const lines = (list: typeof first) => list.map(({ message, index }) => (
    <li key={index} class={message.same ? "same" : "new"}>
      <span class="role">{message.role}</span>
      <span class="prompt-text">{message.excerpt}</span>
      <span class="num muted small">{note(index)}</span>
    </li>
  ));
  return (
    <>
      {lines(first)}
      {all ? lines(middle) : middle.length > 0 && <li class="elided"><button type="button" class="quiet" onClick={() => setAll(true)}>Show {whole(middle.length)} more messages</button></li>}
      {lines(last)}
    </>
  );
}
