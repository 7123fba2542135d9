/** What if: the same candidates with another window, reserve, model, policy or price, and with pins. */

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";

import { json, key, path, errorMessage } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextView, Exceeded, ItemView, ModelList, PolicyList, WhatIf } from "../api/types";
import { questionOf } from "../logic/candidates";
import { percent, plural, signed, whole } from "../logic/format";
import { latest, type Latest } from "../logic/latest";
import { contextPath } from "../logic/routes";
import { fromStep, STEPS, toStep } from "../logic/scale";
import { setQuery, route } from "../router";
import { AnswerAgain } from "../ui/again";
import { BandChoice } from "../ui/bar";
import { Changes } from "../ui/changes";
import { Choice } from "../ui/fields";
import { Find } from "../ui/find";
import { ItemPanel, PinMemory } from "../ui/item-panel";
import { ErrorNote, Heading, Loaded } from "../ui/states";
import { Treemap } from "../ui/treemap";

interface Settings {
  window?: number;
  completion?: number;
  model?: string;
  policy?: string;
  price?: string;
  pin?: string[];
}

const MIN_WINDOW = 256; // tokens
const MAX_WINDOW = 2_097_152;
const PRICES: [string, string][] = [
  ["full", "full: whatever fits, even if it hardly helps"],
  ["balanced", "balanced: a score of 0.015 per 1,000 tokens"],
  ["thrifty", "thrifty: a score of 0.05 per 1,000 tokens"],
];

export function WhatIfPage({ id }: { id: string }) {
  const read = useResource<ContextView>(path`/contexts/${id}`);
  const item = route.value.query.get("item") ?? "";
  return (
    <div class={item && read.data ? "with-panel" : ""}>
      <div class="page">
        <Heading title="What if…"><a class="button" href={contextPath(id)}>Back to context</a></Heading>
        <div class="what-if-page"><Loaded of={read} rows={10}>{(view) => <Playground view={view} item={item} />}</Loaded></div>
      </div>
      {item && read.data && <ItemPanel context={read.data} item={item} onClose={() => setQuery({ item: null }, { replace: false })} />}
    </div>
  );
}

function Playground({ view, item }: { view: ContextView; item: string }) {
  const models = useResource<ModelList>("/models").data?.models ?? [];
  const policies = useResource<PolicyList>("/policies").data?.policies ?? [];
  const [settings, setSettings] = useUrlSettings();
  const { answer, error, busy, took } = useAnswer(view.id, settings);
  const [chosen, setChosen] = useState("");
  const [rejected, setRejected] = useState<{ window?: string | undefined; completion?: string | undefined }>({}); // typed numbers that are out of range
  const question = questionOf(view.decisions);

  const shown = answer?.context ?? view;
  const model = models.find((each) => each.id === (settings.model ?? view.model));
  const window = settings.window ?? (settings.model && model ? model.window : view.window);
  const completion = settings.completion ?? shown.completion;
  const known = useMemo(
    () => new Map([...view.decisions, ...(answer?.entered ?? [])].map((each) => [each.id, each.excerpt])),
    [view.decisions, answer],
  );
  const decisions = useMemo(
    () => shown.decisions.map((each) => ({ ...each, excerpt: each.excerpt || (known.get(each.id) ?? "") })),
    [shown, known],
  );
  const pins = settings.pin ?? [];
  const setPins = (pin: string[]) => setSettings({ ...settings, pin });

  const accept = (name: "window" | "completion") => (tokens: number) => {
    setRejected({ ...rejected, [name]: undefined });
    setSettings({ ...settings, [name]: tokens });
  };
  const reject = (name: "window" | "completion") => (text: string) => setRejected({ ...rejected, [name]: text });
  const reset = () => {
    setRejected({});
    setSettings({});
  };
  const isOld = Object.values(rejected).some((text) => text !== undefined);

  return (
    <div class="what-if">
      <section class="result" aria-label="Result">
        {question && <p class="exchange"><b class="muted">Question</b> <span>{question.excerpt}</span></p>}
        {error && <ErrorNote error={error} />}
        {answer?.exceeded && <DoesNotFit exceeded={answer.exceeded} />}
        {isOld && <p class="note warn">This is the old result: a number was not accepted.</p>}
        <p role="status" aria-busy={busy}>
          <b class="num">{answer?.context && `${whole(view.tokens)} → `}{whole(shown.tokens)}</b> of <span class="num">{whole(shown.available)}</span> available tokens used ({percent(shown.tokens / Math.max(1, shown.available))}, <span class="num">{signed(shown.tokens - view.tokens)}</span>) · window <span class="num">{whole(shown.window)}</span> · {whole(shown.candidates - shown.left_out)} of {plural(shown.candidates, "candidate")} included (<span class="num">{signed(shown.candidates - shown.left_out - (view.candidates - view.left_out))}</span>)
          {answer?.context && <> · the first {percent(answer.prefix_share)} of the request unchanged</>}
          <span aria-hidden="true">{busy ? " · loading…" : answer && ` · ${Math.round(took)} ms`}</span>
        </p>
        {pins.map((id) => <PinForReal key={id} context={view.id} id={id} />)}
        <AnswerAgain view={view} body={toBody(settings)} what={describe(settings, known)} result={answer} fits={!answer?.exceeded && !isOld && !busy && !error} />
        {answer && !answer.exceeded && <Changes entered={answer.entered} left={answer.left} changed={answer.changed} context={view.id} decisions={shown.decisions} />}
        {!answer && !error && <p class="muted">Move a slider, choose another model or pin something to see what would be added and removed.</p>}
        <p class="small muted">The candidates are those of this context. A new context searches again, and with a larger window it loads more history.</p>
      </section>
      <div class="controls">
        <form onSubmit={(event) => event.preventDefault()}>
          <Slider label="Window" value={window} low={MIN_WINDOW} high={MAX_WINDOW} hint={`originally ${whole(view.window)}`} rejected={rejected.window} onReject={reject("window")} onInput={accept("window")} />
          <Slider
            label="Reserved for the answer" value={completion} low={16} high={Math.max(32, Math.min(window - 1, 131_072))} hint={reserveHint(settings, completion, view)}
            rejected={rejected.completion} onReject={reject("completion")} onInput={accept("completion")}
          />
          <Choice
            label="Model" value={settings.model ?? ""} options={[["", `${view.model} (original)`], ...models.map((each) => [each.id, `${each.id} (${whole(each.window)})`] as const)]}
            onInput={(name) => { const { window: _, ...rest } = settings; setRejected({}); setSettings(without({ ...rest, model: name })); }}
          />
          <Choice
            label="Policy" value={settings.policy ?? ""} options={[["", `${view.policy} (original)`], ...policies.map((each) => [each.name, `${each.name}: ${each.description}`] as const)]}
            hint="How the window is divided, and in which order it is filled."
            onInput={(policy) => setSettings(without({ ...settings, policy }))}
          />
          <Choice
            label="Price of tokens" value={settings.price ?? ""} options={[["", `a score of ${view.price} per 1,000 tokens (original)`], ...PRICES]}
            hint="The score that retrieved items need for each 1,000 tokens they take."
            onInput={(price) => setSettings(without({ ...settings, price }))}
          />
          <button type="button" onClick={reset} disabled={Object.keys(settings).length === 0 && !isOld}>Reset</button>
        </form>
        <TryPin context={view.id} pins={pins} onChange={setPins} />
      </div>
      <section aria-label="Window" class={answer?.exceeded || isOld ? "pale" : ""}>
        <BandChoice bands={shown.bands} window={shown.window} chosen={chosen} onChoose={setChosen} />
        <Treemap bands={shown.bands} decisions={decisions} chosen={chosen} selected={item} onOpen={(id) => setQuery({ item: id }, { replace: false })} />
      </section>
    </div>
  );
}

/** The settings as the server wants them. */
function toBody({ price, ...rest }: Settings): object {
  return price ? { ...rest, overrides: { price } } : rest;
}

/** The changed settings in words. A pin is named by its text, if that is known. */
function describe({ window, completion, model, policy, price, pin }: Settings, known: ReadonlyMap<string, string>): string[] {
  return [
    ...(model ? [model] : []),
    ...(window ? [`window ${whole(window)}`] : []),
    ...(completion ? [`${whole(completion)} reserved`] : []),
    ...(policy ? [`policy ${policy}`] : []),
    ...(price ? [`price ${price}`] : []),
    ...(pin ?? []).map((id) => `pinned: ${known.get(id) || id}`),
  ];
}

/** Pin what was tried here, if it is a stored memory. */
function PinForReal({ context, id }: { context: string; id: string }) {
  const found = useResource<ItemView>(path`/contexts/${context}/items/${id}`).data;
  if (!found?.memory) return null;
  const tokens = found.remedies.find((each) => each.change === "pin")?.tokens;
  return <p><code>{id}</code>: <PinMemory id={id} memory={found.memory} tokens={tokens} label="Pin for real" /></p>;
}

/** Where the reserve comes from: a policy reserves a share of the window, so that it changes with the window. */
function reserveHint(settings: Settings, completion: number, view: ContextView): string {
  if (settings.completion !== undefined) return `set here, originally ${whole(view.completion)}`;
  return completion === view.completion ? "as originally" : `originally ${whole(view.completion)}; it follows the window, model and policy until you set it here`;
}

/** Build the context with something pinned: a candidate, or a memory or message that was none. */
function TryPin({ context, pins, onChange }: { context: string; pins: string[]; onChange: (pins: string[]) => void }) {
  const [text, setText] = useState("");
  return (
    <details open={pins.length > 0}>
      <summary>Pin something{pins.length > 0 && ` (${pins.length})`}</summary>
      <ul class="pins" aria-label="Pinned here">
        {pins.map((id) => <li key={id}><code>{id}</code> <button type="button" class="quiet" onClick={() => onChange(pins.filter((each) => each !== id))}>Unpin</button></li>)}
      </ul>
      <Find context={context} label="What to pin" text={text} onFind={setText} onPick={(id) => onChange([...new Set([...pins, id])])} />
    </details>
  );
}

function DoesNotFit({ exceeded }: { exceeded: Exceeded }) {
  return (
    <div class="note bad" role="alert">
      <p><b>It does not fit.</b> Required items need {whole(exceeded.needed)} tokens, but only {whole(exceeded.limit)} are available.</p>
      <ul>{exceeded.required.map(([id, tokens]) => <li key={id}><code>{id}</code>: {whole(tokens)}</li>)}</ul>
    </div>
  );
}

/** A slider for tokens, with a number field. */
function Slider({ label, value, low, high, hint, rejected, onReject, onInput }: {
  label: string;
  value: number;
  low: number;
  high: number;
  hint: string;
  /** What was typed, if it is out of range. */
  rejected: string | undefined;
  onReject: (text: string) => void;
  onInput: (tokens: number) => void;
}) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null); // null: nothing is being typed
  const apply = (text: string) => {
    setTyped(null);
    const tokens = Math.round(Number(text));
    if (tokens >= low && tokens <= high) onInput(tokens);
    else onReject(text);
  };
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <input
        type="number" min={low} max={high} step={1} value={typed ?? rejected ?? value} aria-label={`${label}, in tokens`}
        aria-invalid={rejected !== undefined} aria-describedby={rejected === undefined ? undefined : `${id}-error`}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => apply(event.currentTarget.value)}
      />
      <input
        id={id} type="range" min={0} max={STEPS} step={1} value={toStep(value, low, high)} aria-valuetext={`${whole(value)} tokens`}
        aria-describedby={`${id}-hint`} onInput={(event) => onInput(fromStep(Number(event.currentTarget.value), low, high))}
      />
      <span class="hint" id={`${id}-hint`}>{hint}</span>
      {rejected !== undefined && <span class="hint bad" role="alert" id={`${id}-error`}>Not accepted: enter a number from {whole(low)} to {whole(high)}.</span>}
    </div>
  );
}

function without(settings: Settings): Settings {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== ""));
}

/** The settings are stored in the URL, so that it can be shared. */
function useUrlSettings(): [Settings, (settings: Settings) => void] {
  const search = route.value.query;
  const number = (name: string) => (Number(search.get(name)) > 0 ? { [name]: Number(search.get(name)) } : {});
  const text = (name: string) => (search.get(name) ? { [name]: search.get(name) ?? "" } : {});
  const pin = search.getAll("pin");
  const settings: Settings = { ...number("window"), ...number("completion"), ...text("model"), ...text("policy"), ...text("price"), ...(pin.length > 0 && { pin }) };
  const set = ({ window, completion, model, policy, price, pin: pins }: Settings) =>
    setQuery({ window: window ? String(window) : null, completion: completion ? String(completion) : null, model: model ?? null, policy: policy ?? null, price: price ?? null, pin: pins ?? null });
  return [settings, set];
}

interface AnswerState {
  answer: WhatIf | null;
  error: string;
  busy: boolean;
  took: number;
}

/** Send a request with every change; the newest wins. */
function useAnswer(id: string, settings: Settings): AnswerState {
  const [state, setState] = useState<AnswerState>({ answer: null, error: "", busy: false, took: 0 });
  const requests = useRef<Latest<Settings> | null>(null);
  const secret = key.value;
  useEffect(() => {
    let since = 0;
    const each = latest<Settings, WhatIf>(
      (settings, signal) => {
        since = performance.now();
        return json(path`/contexts/${id}/what-if`, { method: "POST", body: toBody(settings), signal });
      },
      {
        answer: (answer) => setState({ answer, error: "", busy: false, took: performance.now() - since }),
        error: (error) => setState((old) => ({ ...old, error: errorMessage(error), busy: false })),
      },
    );
    requests.current = each;
    return () => each.stop();
  }, [id, secret]);

  const encoded = JSON.stringify(settings);
  useEffect(() => {
    if (encoded === "{}") return setState({ answer: null, error: "", busy: false, took: 0 });
    setState((old) => ({ ...old, busy: true }));
    requests.current?.ask(JSON.parse(encoded) as Settings);
  }, [encoded, id, secret]);
  return state;
}
