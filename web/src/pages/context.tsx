/** One context: what was included, what was left out, and why. */

import { useCallback, useMemo, useState } from "preact/hooks";

import { path } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextView } from "../api/types";
import { type Column, type Filter, NO_FILTER, type Order, outcomes } from "../logic/candidates";
import { windowSum } from "../logic/components";
import { formatTime, money, percent, plural, seconds, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { contextPath, personaPath, roomPath, tabPath, timelinePath, whatIfPath } from "../logic/routes";
import { setQuery, route } from "../router";
import { useAnchor } from "../ui/anchor";
import { AnswerSection } from "../ui/answers";
import { BandChoice } from "../ui/bar";
import { Candidates } from "../ui/candidates";
import { FoldSection } from "../ui/fold";
import { Explain } from "../ui/help";
import { ItemPanel } from "../ui/item-panel";
import { later } from "../ui/later";
import { Kinds, Pools } from "../ui/pools";
import { RunLinks } from "../ui/run-place";
import { Heading, Loaded } from "../ui/states";
import { Treemap } from "../ui/treemap";

const RequestView = later(() => import("../ui/request").then((part) => part.RequestView));

export function ContextPage({ id }: { id: string }) {
  const read = useResource<ContextView>(path`/contexts/${id}`);
  const item = route.value.query.get("item") ?? "";
  const hold = useAnchor(item);
  const show = useCallback((id: string | null) => (hold(), setQuery({ item: id }, { replace: false })), [hold]);
  const close = useCallback(() => show(null), [show]);
  return (
    <div class={item && read.data ? "with-panel" : ""}>
      <div class="page">
        <Heading title={read.data ? `${personaName(read.data) || "Context"} in ${roomName(read.data)}` : "Context"}>
          {read.data && <a class="button" href={timelinePath(read.data.room, id)}>Timeline</a>}
          {read.data && <a class="button" href={whatIfPath(id)}>What if…</a>}
        </Heading>
        {read.data && <RunLinks run={read.data.run} />}
        <Loaded of={read} rows={10}>{(view) => <Body view={view} item={item} onOpen={show} />}</Loaded>
      </div>
      {item && read.data && <ItemPanel context={read.data} item={item} onClose={close} />}
    </div>
  );
}

/** Search everything, not only candidates, and show the results. */
function find(text: string): void {
  setQuery({ find: text, tab: "answer" });
  requestAnimationFrame(() => {
    document.getElementById("out-heading")?.scrollIntoView();
    document.querySelector<HTMLElement>(".forgotten input")?.focus({ preventScroll: true });
  });
}

const TABS = [["answer", "Answer"], ["window", "Window"], ["candidates", "Candidates"], ["request", "Request"]] as const;
type Tab = (typeof TABS)[number][0];

/** The chosen part of the page. A link with a filter or an order of candidates shows them. */
function chosenTab(search: URLSearchParams): Tab {
  const named = TABS.find(([tab]) => tab === search.get("tab"))?.[0];
  return named ?? (["q", "outcome", "kind", "pool", "sort"].some((name) => search.has(name)) ? "candidates" : "answer");
}

function Body({ view, item, onOpen }: { view: ContextView; item: string; onOpen: (id: string) => void }) {
  const tab = chosenTab(route.value.query);
  return (
    <>
      <p class="lead">
        <b class="num">{whole(view.tokens)}</b> of {whole(view.available)} available tokens used ({percent(view.tokens / Math.max(1, view.available))}) · {plural(view.candidates, "candidate")}: {outcomes(view.decisions, view.candidates)} · {[view.model, ...costs(view), formatTime(view.at)].join(" · ")}
      </p>
      <Notes view={view} />
      <nav class="tabs" aria-label="Parts of the context">
        {TABS.map(([name, title]) => <a key={name} href={tabPath(view.id, name, item)} aria-current={name === tab ? "page" : undefined}>{title}</a>)}
      </nav>
      {tab === "answer" && <AnswerSection view={view} onOpen={onOpen} />}
      {tab === "window" && <WindowSection view={view} item={item} onOpen={onOpen} />}
      {tab === "candidates" && <CandidateSection view={view} item={item} onOpen={onOpen} />}
      {tab === "request" && <><RequestView view={view} /><Facts view={view} /></>}
    </>
  );
}

/** The cost and the time of the answers, as far as they are known. */
function costs({ answers }: ContextView): string[] {
  const priced = answers.flatMap(({ cost }) => cost ?? []);
  const timed = answers.flatMap(({ seconds }) => seconds ?? []);
  const sum = (values: number[]) => values.reduce((all, each) => all + each, 0);
  return [...(priced.length > 0 ? [money(sum(priced))] : []), ...(timed.length > 0 ? [seconds(sum(timed))] : [])];
}

function WindowSection({ view, item, onOpen }: { view: ContextView; item: string; onOpen: (id: string) => void }) {
  const [chosen, setChosen] = useState("");
  return (
    <>
      <section aria-labelledby="window-heading">
        <h2><span id="window-heading">Window</span> <Explain term="Window" /></h2>
        <p class="small muted">{windowSum(view)} Percentages are of the whole window. <Explain term="Reserve" /></p>
        <BandChoice bands={view.bands} window={view.window} chosen={chosen} onChoose={setChosen} />
        <Treemap bands={view.bands} decisions={view.decisions} chosen={chosen} selected={item} onOpen={onOpen} />
      </section>
      <Pools pools={view.pools} />
      <Kinds kinds={view.kinds} pinned={view.bands.find((band) => band.name === "pinned")?.tokens ?? 0} />
    </>
  );
}

function Facts({ view }: { view: ContextView }) {
  return (
    <FoldSection id="facts-heading" title="Details">
      <dl class="facts across">
        <div><dt>Window</dt><dd class="num">{whole(view.window)}</dd></div>
        <div><dt>Free</dt><dd class="num">{whole(view.remaining)}</dd></div>
        <div><dt>Policy <Explain term="Policy" /></dt><dd>{view.policy}</dd></div>
        <div><dt>Price <Explain term="Price" /></dt><dd>needs a score of {view.price} per 1,000 tokens</dd></div>
        <div><dt>Counts</dt><dd>{view.basis}</dd></div>
        <div><dt>Room</dt><dd><a href={roomPath(view.room)}>{roomName(view)}</a></dd></div>
        {view.persona && <div><dt>Persona</dt><dd><a href={personaPath(view.persona)}>{personaName(view)}</a></dd></div>}
        <div><dt>ID</dt><dd><code>{view.id}</code></dd></div>
      </dl>
    </FoldSection>
  );
}

function Notes({ view }: { view: ContextView }) {
  const degraded = new Set(view.degraded.map((each) => each.text));
  const warnings = view.warnings.filter((each) => !degraded.has(each.text));
  if (warnings.length + view.degraded.length === 0) return null;
  return (
    <section class="notes" aria-label="Warnings">
      {view.degraded.map((each) => <p key={each.text} class="note warn"><b>Degraded:</b> {each.text}</p>)}
      {warnings.map((each) => <p key={each.text} class="note">{each.text}{each.kind === "recalled" && <> <a href={contextPath(String(each.facts["context"]))}>Show that context</a></>}</p>)}
    </section>
  );
}

function CandidateSection({ view, item, onOpen }: { view: ContextView; item: string; onOpen: (id: string) => void }) {
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
      <h2><span id="candidates-heading">All candidates</span> <Explain term="Candidate" /></h2>
      <Candidates
        decisions={view.decisions} filter={filter} order={order} selected={item} onOpen={onOpen} onFind={find}
        onFilter={({ text, ...rest }) => setQuery({ q: text, ...rest })}
        onOrder={({ column, down }) => setQuery({ sort: column === "position" && !down ? null : (down ? "-" : "") + column })}
      />
    </section>
  );
}
