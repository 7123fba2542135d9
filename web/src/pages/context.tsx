/** One context: what was included, what was left out, and why. */

import { useCallback, useMemo, useState } from "preact/hooks";

import { path } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextView } from "../api/types";
import { type Column, type Filter, gap, nearMisses, NO_FILTER, type Order } from "../logic/candidates";
import { formatTime, percent, plural, reasonText, score, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { personaPath, roomPath, whatIfPath } from "../logic/routes";
import { setQuery, route } from "../router";
import { Answers } from "../ui/answers";
import { BandChoice } from "../ui/bar";
import { Candidates } from "../ui/candidates";
import { ItemPanel } from "../ui/item-panel";
import { Kinds, Pools } from "../ui/pools";
import { RequestView } from "../ui/request";
import { Heading, Loaded } from "../ui/states";
import { Treemap } from "../ui/treemap";

export function ContextPage({ id }: { id: string }) {
  const read = useResource<ContextView>(path`/contexts/${id}`);
  const item = route.value.query.get("item") ?? "";
  const close = useCallback(() => setQuery({ item: null }, { replace: false }), []);
  return (
    <div class={item && read.data ? "with-panel" : ""}>
      <div class="page">
        <Heading title={read.data ? `${personaName(read.data) || "Context"} in ${roomName(read.data)}` : "Context"}>
          {read.data && <a class="button" href={whatIfPath(id)}>What if…</a>}
        </Heading>
        <Loaded of={read} rows={10}>{(view) => <Body view={view} item={item} />}</Loaded>
      </div>
      {item && read.data && <ItemPanel context={id} window={read.data.window} item={item} onClose={close} />}
    </div>
  );
}

const open = (item: string) => setQuery({ item }, { replace: false });

function Body({ view, item }: { view: ContextView; item: string }) {
  const [chosen, setChosen] = useState("");
  return (
    <>
      <Facts view={view} />
      <Notes view={view} />
      <section aria-labelledby="window-heading">
        <h2 id="window-heading">Window</h2>
        <BandChoice bands={view.bands} window={view.window} chosen={chosen} onChoose={setChosen} />
        <Treemap bands={view.bands} decisions={view.decisions} chosen={chosen} selected={item} onOpen={open} />
      </section>
      <NearMisses view={view} />
      <Answers answers={view.answers} counted={view.tokens} />
      <CandidateSection view={view} item={item} />
      <Pools pools={view.pools} />
      <Kinds kinds={view.kinds} />
      <RequestView context={view.id} parts={view.prompt} />
    </>
  );
}

function Facts({ view }: { view: ContextView }) {
  return (
    <dl class="facts across">
      <div><dt>Used</dt><dd><b class="num">{whole(view.tokens)}</b> of {whole(view.available)} available tokens ({percent(view.tokens / Math.max(1, view.available))})</dd></div>
      <div><dt>Window</dt><dd class="num">{whole(view.window)}</dd></div>
      <div><dt>Remaining</dt><dd class="num">{whole(view.remaining)}</dd></div>
      <div><dt>Candidates</dt><dd><span class="num">{whole(view.candidates)}</span>, {whole(view.left_out)} left out</dd></div>
      <div><dt>Model</dt><dd>{view.model}</dd></div>
      <div><dt>Policy</dt><dd>{view.policy}</dd></div>
      <div><dt>Counts</dt><dd>{view.basis}</dd></div>
      <div><dt>Room</dt><dd><a href={roomPath(view.room)}>{roomName(view)}</a></dd></div>
      {view.persona && <div><dt>Persona</dt><dd><a href={personaPath(view.persona)}>{personaName(view)}</a></dd></div>}
      <div><dt>Built</dt><dd>{formatTime(view.at)}</dd></div>
      <div><dt>ID</dt><dd><code>{view.id}</code></dd></div>
    </dl>
  );
}

function Notes({ view }: { view: ContextView }) {
  const degraded = new Set(view.degraded.map((each) => each.text));
  const warnings = view.warnings.filter((each) => !degraded.has(each.text));
  if (warnings.length + view.degraded.length === 0) return null;
  return (
    <section class="notes" aria-label="Warnings">
      {view.degraded.map((each) => <p key={each.text} class="note warn"><b>Degraded:</b> {each.text}</p>)}
      {warnings.map((each) => <p key={each.text} class="note">{each.text}</p>)}
    </section>
  );
}

const MISSES = 6;

function NearMisses({ view }: { view: ContextView }) {
  const missed = useMemo(() => nearMisses(view.decisions, MISSES), [view.decisions]);
  if (missed.length === 0) return null;
  return (
    <section aria-labelledby="missed-heading">
      <h2 id="missed-heading">Closest to the cut</h2>
      <ul class="cards">
        {missed.map((each) => (
          <li key={each.id}>
            <button type="button" class="card" onClick={() => open(each.id)}>
              <span class="card-text">{each.excerpt || each.id}</span>
              <span class="small muted">
                {gap(each) > 0 ? `${plural(gap(each), "rank")} below the cut of` : "above the cut but too large for"} {each.pool || "its pool"} · {reasonText(each.reason)} · {plural(each.tokens, "token")}
                {each.score && ` · score ${score(each.score.total)}`}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function CandidateSection({ view, item }: { view: ContextView; item: string }) {
  const search = route.value.query;
  const filter: Filter = useMemo(
    () => ({
      text: search.get("q") ?? NO_FILTER.text,
      outcome: search.get("outcome") ?? "",
      kind: search.get("kind") ?? "",
      pool: search.get("pool") ?? "",
    }),
    [search.get("q"), search.get("outcome"), search.get("kind"), search.get("pool")],
  );
  const sort = search.get("sort") ?? "position";
  const order: Order = useMemo(
    () => ({ column: sort.replace(/^-/, "") as Column, down: sort.startsWith("-") }),
    [sort],
  );
  return (
    <section aria-labelledby="candidates-heading">
      <h2 id="candidates-heading">All candidates</h2>
      <Candidates
        decisions={view.decisions} filter={filter} order={order} selected={item} onOpen={open}
        onFilter={({ text, ...rest }) => setQuery({ q: text, ...rest })}
        onOrder={({ column, down }) => setQuery({ sort: column === "position" && !down ? null : (down ? "-" : "") + column })}
      />
    </section>
  );
}
