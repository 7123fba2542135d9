/** The same question with other settings, answered by the model: answers side by side. */

import { useEffect, useRef, useState } from "preact/hooks";

import { errorMessage, isAbort, json, path } from "../api/client";
import { useFeatures } from "../api/features";
import type { AnsweredAgain, ContextView, WhatIf } from "../api/types";
import { money, plural, seconds, signed, whole } from "../logic/format";

interface Try {
  /** What was changed, in words. */
  what: string[];
  /** What the context lost and got by that, at the time. */
  change: { entered: number; left: number } | null;
  body: unknown;
  answer: AnsweredAgain | null;
  error: string;
}

export function AnswerAgain({ view, body, what, result, fits }: {
  view: ContextView;
  /** The request of what if. */
  body: unknown;
  what: string[];
  result: WhatIf | null;
  fits: boolean;
}) {
  const features = useFeatures().data;
  const [tries, setTries] = useState<Try[]>([]);
  const controller = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => () => controller.current?.abort(), []);

  const ask = async (each: Try) => {
    controller.current = new AbortController();
    setBusy(true);
    const put = (done: Partial<Try>) => setTries((all) => all.map((one) => (one === each ? { ...one, ...done } : one)));
    setTries((all) => [...all.filter((one) => one.answer), each]);
    try {
      put({ answer: await json<AnsweredAgain>(path`/contexts/${view.id}/answer`, { method: "POST", body: each.body, signal: controller.current.signal }) });
    } catch (error) {
      if (isAbort(error)) setTries((all) => all.filter((one) => one.answer));
      else put({ error: errorMessage(error) });
    }
    setBusy(false);
  };
  const begin = () => void ask({ what, change: result && { entered: result.entered.length, left: result.left.length }, body, answer: null, error: "" });
  if (!features) return null;
  const original = view.answers[0];
  return (
    <section class="again" aria-labelledby="again-heading">
      <h2 id="again-heading">Answer again</h2>
      {features.upstreams && features.chat ? (
        <p>
          {busy ? <button type="button" onClick={() => controller.current?.abort()}>Stop</button> : <button type="button" disabled={!fits} onClick={begin}>Answer again{what.length > 0 && " with these settings"}</button>}
          <span class="small muted"> Sends one request to the model, which costs as much as any other. Nothing is stored in the room.</span>
        </p>
      ) : (
        <p class="small muted">{features.upstreams ? "Your API key lacks the scope chat." : <>To have it answered with these settings, start the server with a model server: <code>brimful serve --upstream URL</code>.</>}</p>
      )}
      {tries.length > 0 && (
        <div class="sides" aria-live="polite">
          <article class="side" aria-label="Original answer">
            <h3>Original</h3>
            {original ? (
              <>
                <blockquote class="answer-text">{original.text || "(the text is not stored)"}</blockquote>
                <Facts model={original.model || view.model} tokens={view.tokens} completion={original.usage?.completion} cost={original.cost} time={original.seconds} />
              </>
            ) : <p class="muted">No answer was recorded.</p>}
          </article>
          {tries.map((each, index) => (
            <article key={index} class="side" aria-label={`Answer ${index + 2}`} aria-busy={busy && !each.answer && !each.error}>
              <h3>{each.what.join(" · ") || "The same settings"}</h3>
              {each.change && each.change.entered + each.change.left > 0 && <p class="small muted">{plural(each.change.entered, "item")} added, {plural(each.change.left, "item")} removed</p>}
              {each.answer && (
                <>
                  <blockquote class="answer-text">{[each.answer.text, ...each.answer.calls.map((call) => `[calls ${call.name}]`)].filter(Boolean).join("\n")}</blockquote>
                  <Facts model={each.answer.model} tokens={each.answer.tokens} than={view.tokens} completion={each.answer.usage?.completion} cost={each.answer.cost} time={each.answer.seconds} />
                </>
              )}
              {each.error && (
                <div class="note bad">
                  <p role="alert">{each.error.charAt(0).toUpperCase() + each.error.slice(1)}</p>
                  <button type="button" disabled={busy} onClick={() => void ask({ ...each, error: "" })}>Retry</button>
                </div>
              )}
              {!each.answer && !each.error && <p class="muted">Waiting for the answer…</p>}
            </article>
          ))}
        </div>
      )}
    </section>
  );
}

function Facts({ model, tokens, than, completion, cost, time }: {
  model: string;
  tokens: number;
  /** The tokens of the original prompt. */
  than?: number;
  completion: number | undefined;
  cost: number | null;
  time: number | null;
}) {
  return (
    <dl class="facts">
      <div><dt>Model</dt><dd>{model || "–"}</dd></div>
      <div><dt>Prompt</dt><dd><span class="num">{whole(tokens)}</span> tokens{than !== undefined && <> (<span class="num">{signed(tokens - than)}</span>)</>}</dd></div>
      <div><dt>Answer</dt><dd class="num">{completion === undefined ? "–" : plural(completion, "token")}</dd></div>
      <div><dt>Cost</dt><dd class="num">{cost === null ? "price unknown" : money(cost)}</dd></div>
      <div><dt>Time</dt><dd class="num">{time === null ? "–" : seconds(time)}</dd></div>
    </dl>
  );
}
