/** One item: whether it was included, why, and what would include it. */

import { useEffect, useRef, useState } from "preact/hooks";

import { useChange } from "../api/change";
import { errorMessage, json, path, query } from "../api/client";
import { useResource } from "../api/resource";
import type { Memory } from "../api/records";
import type { Absence, ContextView, Decision, ItemView, Recalled, Remedy, Score } from "../api/types";
import { included, placeOf } from "../logic/candidates";
import { look, title } from "../logic/components";
import { formatTime, formText, isUnlikely, type Place, plural, reasonText, relevance, relevanceText, score, whole } from "../logic/format";
import { memoryOwner } from "../logic/names";
import { contextPath, itemPath, whatIfPath } from "../logic/routes";
import { absenceText, explain, origin, unusedTokens } from "../logic/why";
import { Explain, Explained } from "./help";
import { MemoryDialog } from "./memory-dialog";
import { FormMark, OutcomeBadge, outcomeText } from "./outcome";
import { Loaded } from "./states";

const EVERYTHING = 2 ** 40; // tokens: more than any text has

/** Where the API has the whole text of an item. */
export function wholePath(context: string, item: string): string {
  return path`/contexts/${context}/recall` + query({ handle: item, max_tokens: EVERYTHING });
}

const PARTS: [keyof Score, string][] = [
  ["priority", "Priority"], ["importance", "Importance"], ["relevance", "Relevance"], ["recency", "Recency"],
];

export function ItemPanel({ context, item, onClose }: {
  context: ContextView;
  item: string;
  onClose: () => void;
}) {
  const read = useResource<ItemView>(path`/contexts/${context.id}/items/${item}`);
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
      <Loaded of={read} rows={8}>
        {(view) => (
          <>
            <Verdict view={view} context={context} item={item} onEdit={read.reload} />
            {view.status && <p class="note warn">{STATUS[view.status]}</p>}
            {view.decision ? <Details view={view} decision={view.decision} context={context} /> : <><h3>Text</h3><WholeText view={view} item={item} context={context.id} /></>}
            <Builds view={view} context={context.id} />
          </>
        )}
      </Loaded>
    </aside>
  );
}

const STATUS = {
  removed: "It was removed later, so newer contexts cannot include it.",
  erased: "Its text was erased later, including from this record.",
};

function Verdict({ view, context, item, onEdit }: AdviceProps) {
  const { decision, absence } = view;
  const isIn = decision !== null && included(decision);
  return (
    <section class={isIn ? "verdict in" : "verdict out"} aria-label="Verdict">
      <h3>{isIn ? "Why is it included?" : "Why is it not included?"}</h3>
      {decision && <DecisionText decision={decision} view={view} context={context} />}
      {absence && <AbsenceText absence={absence} context={context} />}
      <Advice key={item} view={view} context={context} item={item} onEdit={onEdit} />
    </section>
  );
}

function DecisionText({ decision, view, context }: { decision: Decision; view: ItemView; context: ContextView }) {
  const source = origin(decision);
  return (
    <>
      <p><b>{sentence(outcomeText(decision))}</b> <Explained text={explain(decision, context, view.remedies)} /></p>
      {source && <p class="small">It was a candidate because {source}.</p>}
      {included(decision) && view.required_window !== null && <p class="small">It would also be included with a window of {plural(view.required_window, "token")}. This one has {whole(context.window)}.</p>}
    </>
  );
}

function AbsenceText({ absence, context }: { absence: Absence; context: ContextView }) {
  const unused = unusedTokens(absence, context);
  return (
    <>
      <p><b>It was not a candidate:</b> {absenceText(absence)}.</p>
      {(absence.reason === "not-found" || absence.reason === "edited") && (
        <p>{absence.relevance === null
          ? "Search does not find it for this question: they share no words, and their meanings are not close."
          : <>For this question, search estimates: <b>{relevanceText(absence.relevance)}</b>. <Explain term="Relevance" /></>}</p>
      )}
      {unused && <p>{unused}</p>}
    </>
  );
}

interface AdviceProps {
  view: ItemView;
  context: ContextView;
  item: string;
  onEdit: () => void;
}

/** Changes that include the item; the server has tried each of them. */
function Advice({ view, context, item, onEdit }: AdviceProps) {
  const { decision, absence } = view;
  const [pinned, setPinned] = useState(view.memory?.pinned ?? false);
  const memory = view.memory && { ...view.memory, pinned };
  const isOut = absence !== null || decision?.outcome === "dropped";
  const pin = view.remedies.find((each) => each.change === "pin");
  const others = view.remedies.filter((each) => each.change !== "pin");
  if (memory?.pinned) return <p><PinMemory id={item} memory={memory} onPin={setPinned} /></p>;
  return (
    <>
      {isOut && (pin || absence || others.length > 0) && <h4>What would include it</h4>}
      <ul class="remedies">
        {others.map((each) => <li key={each.change}><RemedyText remedy={each} context={context} /></li>)}
        {isOut && pin && (
          <li>
            {memory
              ? <PinMemory id={item} memory={memory} tokens={pin.tokens} onPin={setPinned} />
              : <><SaveAsMemory view={view} room={context.room} /> {costText(pin)}</>}
            {" "}<a href={whatIfPath(context.id, { pin: item })}>See what pinning it changes.</a>
          </li>
        )}
        {absence && <li>{sentence(absence.fix)}{memory && EDITABLE.has(absence.reason) && <> <EditMemory id={item} onDone={onEdit} /></>}</li>}
      </ul>
      {decision?.outcome === "dropped" && !others.some((each) => each.change === "window") && <p class="small">A larger window alone would not include it.</p>}
    </>
  );
}

/** A pinned memory is in every context of those who can see it. */
export function PinMemory({ id, memory, tokens, label = "Pin it", onPin }: {
  id: string;
  memory: NonNullable<ItemView["memory"]>;
  tokens?: number | undefined;
  label?: string;
  onPin?: (pinned: boolean) => void;
}) {
  const change = useChange();
  const [pinned, setPinned] = useState(memory.pinned);
  const pin = async (value: boolean) => {
    if (await change.run(() => json(path`/memories/${id}`, { method: "PUT", body: { pinned: value } }))) (setPinned(value), onPin?.(value));
  };
  return (
    <>
      {!pinned && <><button type="button" disabled={change.busy} onClick={() => void pin(true)}>{label}</button>{" "}</>}
      <span role="status">{pinned
        ? `Pinned: it will be in the next context of ${memoryOwner(memory)}.`
        : `Include it in every new context of ${memoryOwner(memory)}${tokens === undefined ? "" : `, for ${plural(tokens, "token")} each`}.`}</span>
      {pinned && <>{" "}<button type="button" class="quiet" disabled={change.busy} onClick={() => void pin(false)}>Unpin</button></>}
      {change.error && <span class="bad" role="alert"> {change.error}</span>}
    </>
  );
}

const EDITABLE = new Set(["not-found", "edited", "other-owner"]); // reasons that an edit can remove

function EditMemory({ id, onDone }: { id: string; onDone: () => void }) {
  const change = useChange();
  const [memory, setMemory] = useState<Memory | null>(null);
  return (
    <>
      <button type="button" disabled={change.busy} onClick={() => void change.run(async () => setMemory(await json<Memory>(path`/memories/${id}`)))}>Edit it</button>
      {change.error && <span class="bad" role="alert"> {change.error}</span>}
      {memory && <MemoryDialog memory={memory} onDone={() => (setMemory(null), onDone())} onClose={() => setMemory(null)} />}
    </>
  );
}

/** A pinned memory with the text of a message. Of a long one, only the beginning is loaded, so its memory has to be written. */
function SaveAsMemory({ view, room }: { view: ItemView; room: string }) {
  const [status, setStatus] = useState<"" | "open" | "saved">("");
  const content = view.characters > view.text.length ? "" : view.text;
  return (
    <>
      <button type="button" onClick={() => setStatus("open")}>Save as pinned memory</button>{" "}
      <span role="status">{status === "saved" && "Saved: new contexts can include it."}</span>
      {status === "open" && <MemoryDialog memory={null} initial={{ content, room, pinned: true }} onDone={() => setStatus("saved")} onClose={() => setStatus("")} />}
    </>
  );
}

function RemedyText({ remedy, context }: { remedy: Remedy; context: ContextView }) {
  if (remedy.change === "window") {
    return <><a href={whatIfPath(context.id, { window: String(remedy.window) })}>A window of <b class="num">{whole(remedy.window ?? 0)}</b> tokens</a> instead of {whole(context.window)}. {costText(remedy)}</>;
  }
  return <><a href={whatIfPath(context.id, { price: remedy.price ?? "" })}>The price of tokens “{remedy.price}”</a> <Explain term="Price" />{remedy.price === "full" && ", which takes whatever fits"}. {costText(remedy)}</>;
}

function costText({ tokens, left }: Remedy): string {
  return `It takes ${plural(tokens, "token")}${left > 0 ? `, and ${plural(left, "other item")} would be left out` : ""}.`;
}

function Details({ view, decision, context }: { view: ItemView; decision: Decision; context: ContextView }) {
  return (
    <>
      <dl class="facts">
        <div><dt>Part</dt><dd><span class={`swatch ${look(decision.component)}`} aria-hidden="true" /> {title(decision.component)}</dd></div>
        <div><dt>Kind</dt><dd>{decision.kind}</dd></div>
        <div><dt>Tokens</dt><dd class="num">{whole(decision.tokens)}{included(decision) && decision.cost !== decision.tokens && ` (${whole(decision.cost)} with its label or role)`}</dd></div>
        {decision.form !== "full" && <div><dt>Form <Explain term="Form" /></dt><dd>{formText(decision)}<FormCosts decision={decision} /></dd></div>}
        {decision.outcome !== "kept" && <div><dt>Recall as</dt><dd><code>{view.handle}</code></dd></div>}
        {decision.pool && <div><dt>Pool <Explain term="Pool" /></dt><dd>{decision.pool}{decision.rank > 0 && <>, place {whole(decision.rank)} of {whole(placeOf(decision, context.decisions).total)} <Explain term="Place" /></>}</dd></div>}
        {decision.at > 0 && <div><dt>Date</dt><dd>{formatTime(decision.at)}</dd></div>}
        {decision.by && <div><dt>{decision.outcome === "duplicate" ? "Same as" : "Covered by"}</dt><dd><a href={itemPath(context.id, decision.by)}><code>{decision.by}</code></a></dd></div>}
        {decision.group && decision.group !== decision.id && <div><dt>Grouped with</dt><dd><a href={itemPath(context.id, decision.group)}><code>{decision.group}</code></a></dd></div>}
      </dl>
      {decision.score && <Scores score={decision.score} place={placeOf(decision, context.decisions)} isTool={decision.kind === "tool-definition"} policy={context.policy} />}
      {view.seen && (
        <>
          <h3>What the model saw <FormMark decision={decision} /></h3>
          <pre class="text seen" tabIndex={0} aria-label="What the model saw">{view.seen}</pre>
        </>
      )}
      <h3>{view.seen ? "Full text" : "Text"}</h3>
      <WholeText view={view} item={decision.id} context={context.id} />
      {Object.keys(view.metadata).length > 0 && (
        <details>
          <summary>Metadata</summary>
          <pre class="text" tabIndex={0}>{JSON.stringify(view.metadata, null, 2)}</pre>
        </details>
      )}
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
function WholeText({ view, item: id, context }: { view: ItemView; item: string; context: string }) {
  const [rest, setRest] = useState({ id: "", text: "", error: "" });
  const text = rest.id === id && rest.text ? rest.text : view.text;
  const isCut = view.characters > view.text.length && text === view.text;
  const showAll = async () => {
    try {
      const found = await json<Recalled>(wholePath(context, id));
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

function Scores({ score: scores, place, isTool, policy }: { score: Score; place: Place; isTool: boolean; policy: string }) {
  return (
    <>
      <h3>Score: {score(scores.total)} <Explain term="Score" /></h3>
      <p class="small muted">What it is worth for this answer, computed from these parts with the weights of policy {policy}. Relevance is {isTool ? "how well the tool matches the task, beside the tool that matches it best" : "the estimated probability that it helps with the question"}.</p>
      <dl class="scores">
        {PARTS.map(([name, text]) => (
          <div key={name}>
            <dt>{text}</dt>
            {name === "relevance" && !isTool && isUnlikely(scores[name])
              ? <dd>{relevance(scores[name], place)}</dd>
              : <dd class="measured"><span class="meter" aria-hidden="true" style={{ "--share": String(Math.min(1, Math.max(0, scores[name]))) }} /> <span class="num">{(name === "relevance" && !isTool ? relevance : score)(scores[name])}</span></dd>}
          </div>
        ))}
      </dl>
    </>
  );
}

/** "left out" → "Left out." */
function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
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
