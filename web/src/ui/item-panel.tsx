/** One candidate: whether it was included, why, and which window it requires. */

import { useEffect, useRef, useState } from "preact/hooks";

import { useChange } from "../api/change";
import { errorMessage, json, path, query } from "../api/client";
import type { Memory, MemoryList } from "../api/records";
import { useResource } from "../api/resource";
import type { Decision, ItemView, Recalled, Score } from "../api/types";
import { included, isPriced } from "../logic/candidates";
import { look, title } from "../logic/components";
import { formatTime, formText, plural, reasonText, relevance, score, whole } from "../logic/format";
import { memoryOwner } from "../logic/names";
import { contextPath, itemPath, whatIfPath } from "../logic/routes";
import { FormMark, OutcomeBadge } from "./outcome";
import { Loaded } from "./states";

const EVERYTHING = 2 ** 40; // tokens: more than any text has

const PARTS: [keyof Score, string][] = [
  ["priority", "Priority"], ["importance", "Importance"], ["relevance", "Relevance"], ["recency", "Recency"],
];

export function ItemPanel({ context, window, item, onClose }: {
  context: string;
  window: number;
  item: string;
  onClose: () => void;
}) {
  const read = useResource<ItemView>(path`/contexts/${context}/items/${item}`);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const back = document.activeElement as HTMLElement | null;
    return () => back?.isConnected && back.focus({ preventScroll: true });
  }, []);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [item]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) onClose();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [onClose]);

  return (
    <aside class="panel" aria-label={`Item ${item}`}>
      <div class="panel-head">
        <h2 ref={heading} tabIndex={-1}><code>{item}</code></h2>
        <button type="button" class="round" aria-label="Close panel" onClick={onClose}><span aria-hidden="true">✕</span></button>
      </div>
      {read.code === "item_not_found" ? <Absent item={item} why={read.error} /> : (
        <Loaded of={read} rows={8}>
          {(view) => <Details view={view} context={context} window={window} />}
        </Loaded>
      )}
    </aside>
  );
}

const STATUS = {
  removed: "It was removed later, so newer contexts cannot include it.",
  erased: "Its text was erased later, including from this record.",
};

/** Something that was not a candidate. */
function Absent({ item, why }: { item: string; why: string }) {
  const memory = useMemory(item);
  return (
    <>
      <section class="verdict out" aria-label="Verdict">
        <h3>Why is it not included?</h3>
        <p>{why}.</p>
        <p class="window-for">No window would include it, since it was not a candidate.</p>
        {memory && <PinMemory memory={memory} />}
      </section>
      {memory && <><h3>Text</h3><pre class="text" tabIndex={0}>{memory.content}</pre></>}
    </>
  );
}

/** The memory with this id, if it is one. */
function useMemory(id: string): Memory | undefined {
  const read = useResource<MemoryList>(`/memories${query({ prefix: id, limit: 1 })}`);
  return read.data?.memories.find((each) => each.id === id);
}

/** A pinned memory is in every context of those who can see it. */
function PinMemory({ memory }: { memory: Memory }) {
  const change = useChange();
  const [pinned, setPinned] = useState(memory.pinned);
  const pin = async () => {
    if (await change.run(() => json(path`/memories/${memory.id}`, { method: "PUT", body: { pinned: true } }))) setPinned(true);
  };
  if (pinned) return <p>It is pinned now, so that newer contexts of {memoryOwner(memory)} include it ({plural(memory.tokens, "token")} each).</p>;
  return (
    <>
      <p><button type="button" disabled={change.busy} onClick={() => void pin()}>Pin it</button> to have it in every context of {memoryOwner(memory)} ({plural(memory.tokens, "token")} each).</p>
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </>
  );
}

function Details({ view, context, window }: { view: ItemView; context: string; window: number }) {
  const { decision } = view;
  return (
    <>
      <Verdict view={view} context={context} window={window} />
      {view.status && <p class="note warn">{STATUS[view.status]}</p>}
      <dl class="facts">
        <div><dt>Part</dt><dd><span class={`swatch ${look(decision.component)}`} aria-hidden="true" /> {title(decision.component)}</dd></div>
        <div><dt>Kind</dt><dd>{decision.kind}</dd></div>
        <div><dt>Tokens</dt><dd class="num">{whole(decision.tokens)}{included(decision) && decision.cost !== decision.tokens && ` (${whole(decision.cost)} including overhead)`}</dd></div>
        {decision.form !== "full" && <div><dt>Form</dt><dd>{formText(decision)}<FormCosts decision={decision} /></dd></div>}
        {decision.outcome !== "kept" && <div><dt>Recall as</dt><dd><code>{view.handle}</code></dd></div>}
        {decision.pool && <div><dt>Pool</dt><dd>{decision.pool}</dd></div>}
        {decision.rank > 0 && <div><dt>Rank</dt><dd class="num">{whole(decision.rank)} (last included rank: {whole(decision.cut)})</dd></div>}
        {decision.at > 0 && <div><dt>Date</dt><dd>{formatTime(decision.at)}</dd></div>}
        {decision.by && <div><dt>{decision.outcome === "duplicate" ? "Same as" : "Covered by"}</dt><dd><a href={itemPath(context, decision.by)}><code>{decision.by}</code></a></dd></div>}
        {decision.group && decision.group !== decision.id && <div><dt>Grouped with</dt><dd><a href={itemPath(context, decision.group)}><code>{decision.group}</code></a></dd></div>}
      </dl>
      {decision.score && <Scores score={decision.score} />}
      {view.seen && (
        <>
          <h3>What the model saw <FormMark decision={decision} /></h3>
          <pre class="text seen" tabIndex={0} aria-label="What the model saw">{view.seen}</pre>
        </>
      )}
      <h3>{view.seen ? "Full text" : "Text"}</h3>
      <WholeText view={view} context={context} />
      {Object.keys(view.metadata).length > 0 && (
        <details>
          <summary>Metadata</summary>
          <pre class="text" tabIndex={0}>{JSON.stringify(view.metadata, null, 2)}</pre>
        </details>
      )}
      <Builds view={view} context={context} />
    </>
  );
}

/** What the next larger and smaller form would have cost. */
function FormCosts({ decision }: { decision: Decision }) {
  const others = [
    decision.larger > 0 ? `${whole(decision.larger)} with the next larger form` : "",
    decision.smaller > 0 ? `${whole(decision.smaller)} with the next smaller one` : "",
  ].filter(Boolean);
  return <>{others.length > 0 && <span class="muted"> (it costs {whole(decision.cost)}; {others.join(", ")})</span>}</>;
}

/** The text of an item. Of a long one, the beginning is loaded first. */
function WholeText({ view, context }: { view: ItemView; context: string }) {
  const [rest, setRest] = useState({ id: "", text: "", error: "" });
  const { id } = view.decision;
  const text = rest.id === id && rest.text ? rest.text : view.text;
  const isCut = view.characters > view.text.length && text === view.text;
  const showAll = async () => {
    try {
      const found = await json<Recalled>(path`/contexts/${context}/recall` + query({ handle: id, max_tokens: EVERYTHING }));
      setRest({ id, text: found.text, error: "" });
    } catch (error) {
      setRest({ id, text: "", error: errorMessage(error) });
    }
  };
  return (
    <>
      <pre class="text" tabIndex={0}>{text || (view.status === "erased" ? "(erased)" : "(no text)")}{isCut && "…"}</pre>
      {isCut && <p><button type="button" onClick={showAll}>Show all {whole(view.characters)} characters</button></p>}
      {rest.id === id && rest.error && <p class="note warn" role="alert">{rest.error}</p>}
    </>
  );
}

function Verdict({ view, context, window }: { view: ItemView; context: string; window: number }) {
  const { decision } = view;
  const isIn = included(decision);
  const sentence = decision.why.slice(decision.why.indexOf(": ") + 2);
  return (
    <section class={isIn ? "verdict in" : "verdict out"} aria-label="Verdict">
      <h3>{isIn ? "Why is it included?" : "Why is it not included?"}</h3>
      <p><OutcomeBadge outcome={decision.outcome} /> {sentence}.</p>
      <p class="window-for"><WindowFor decision={decision} needed={view.required_window} window={window} /></p>
      {!isIn && view.required_window !== null && <p><a href={whatIfPath(context, { window: view.required_window })}>Show what else that window would change</a></p>}
      {!isIn && decision.kind.startsWith("memory-") && <PinOffer id={decision.id} />}
      {isPriced(decision) && <p><a href={whatIfPath(context, { price: "full" })}>Show what would change without a price</a></p>}
    </section>
  );
}

function PinOffer({ id }: { id: string }) {
  const memory = useMemory(id);
  return memory ? <PinMemory key={id} memory={memory} /> : null;
}

function WindowFor({ decision, needed, window }: { decision: Decision; needed: number | null; window: number }) {
  if (included(decision)) {
    return needed === null
      ? <>The model saw it{decision.outcome === "shrunk" ? " in part" : ""}.</>
      : <>The model saw it. It would also be included with a window of <b class="num">{whole(needed)}</b> tokens, but not with {whole(needed - 1)}. This window has {whole(window)}.</>;
  }
  if (needed === null && isPriced(decision)) return <>No window would include it at this price.</>;
  if (needed === null) return <>No window would include it; it was left out for another reason.</>;
  return <>It would be included with a window of <b class="num">{whole(needed)}</b> tokens, but not with {whole(needed - 1)}. This window has {whole(window)}.</>;
}

function Scores({ score: scores }: { score: Score }) {
  return (
    <>
      <h3>Score: {score(scores.total)}</h3>
      <dl class="scores">
        {PARTS.map(([name, text]) => (
          <div key={name}>
            <dt>{text}</dt>
            <dd><span class="meter" aria-hidden="true" style={{ "--share": String(Math.min(1, Math.max(0, scores[name]))) }} /> <span class="num">{(name === "relevance" ? relevance : score)(scores[name])}</span></dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Builds({ view, context }: { view: ItemView; context: string }) {
  if (view.builds.length === 0) return null;
  return (
    <>
      <h3>Recent decisions</h3>
      <ol class="builds">
        {view.builds.map((build) => (
          <li key={build.id}>
            <OutcomeBadge outcome={build.outcome} /> <span class="muted">{reasonText(build.reason)}</span>{" "}
            {build.id === context ? <span class="small">this context</span> : <a class="small" href={contextPath(build.id)}>{formatTime(build.at)}</a>}
          </li>
        ))}
      </ol>
    </>
  );
}
