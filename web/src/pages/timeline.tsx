/** The windows of a conversation, one after the other, with the prefix that the prompt cache kept. */

import { useEffect, useRef, useState } from "preact/hooks";

import { path } from "../api/client";
import { usePages } from "../api/pages";
import { useResource } from "../api/resource";
import type { Room } from "../api/records";
import type { ContextList, ContextRow } from "../api/types";
import { inDisplayOrder, look, rowBands, title } from "../logic/components";
import { clockTimes, formatTime, percent, plural, short, signed, whole } from "../logic/format";
import { contextPath, diffPath, roomPath } from "../logic/routes";
import { nextStep } from "../logic/timeline";
import { route, setQuery } from "../router";
import { BarLegend, WindowBar } from "../ui/bar";
import { FirstContext } from "../ui/first-context";
import { Explain } from "../ui/help";
import { More } from "../ui/more";
import { Heading, Loaded } from "../ui/states";

const STEP = 1200; // ms that a step is shown while playing

export function TimelinePage({ room }: { room: string }) {
  const name = useResource<Room>(path`/rooms/${room}`).data?.name || room;
  const list = usePages<ContextList>("/contexts", { room, limit: 50 }, "before");
  const steps = list.pages.flatMap((page) => page.contexts).reverse();
  return (
    <>
      <Heading title={`Timeline of ${name}`}><a class="button" href={roomPath(room)}>Room</a></Heading>
      <Loaded of={list.first} rows={8}>
        {() => (steps.length === 0 ? <FirstContext /> : <><Player steps={steps} /><More of={list} /></>)}
      </Loaded>
    </>
  );
}

function Player({ steps }: { steps: ContextRow[] }) {
  const id = route.value.query.get("context");
  const found = steps.findIndex((step) => step.id === id);
  const at = found < 0 ? steps.length - 1 : found;
  const [playing, setPlaying] = useState(false);
  const bars = useRef<HTMLDivElement>(null);
  const move = (to: number) => setQuery({ context: steps[to]?.id ?? null });

  useEffect(() => {
    if (!playing) return;
    if (at === steps.length - 1) return setPlaying(false);
    const timer = setTimeout(() => move(at + 1), STEP);
    return () => clearTimeout(timer);
  }, [playing, at, steps.length]);
  useEffect(() => {
    bars.current?.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [at]);

  const play = () => {
    if (!playing && at === steps.length - 1) move(0);
    setPlaying(!playing);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = nextStep(event.key, at, steps.length);
    if (to === null) return;
    event.preventDefault();
    setPlaying(false);
    move(to);
    bars.current?.querySelectorAll<HTMLElement>("button")[to]?.focus();
  };
  const largest = Math.max(...steps.map((step) => step.available), 1);
  const times = clockTimes(steps.map((each) => each.at));
  const step = steps[at];
  return (
    <section aria-label="Windows">
      <div class="player">
        <button type="button" onClick={() => (setPlaying(false), move(at - 1))} disabled={at === 0}>Previous</button>
        <button type="button" class="main" onClick={play}>{playing ? "Pause" : "Play"}</button>
        <button type="button" onClick={() => (setPlaying(false), move(at + 1))} disabled={at === steps.length - 1}>Next</button>
        <span class="muted" role="status">Context {whole(at + 1)} of {whole(steps.length)}</span>
      </div>
      <div class="timeline-frame">
        <div class="timeline-axis small muted num" aria-hidden="true"><span>0</span><span>{short(largest / 2)}</span><span>{short(largest)} tokens</span></div>
        <div class="timeline" ref={bars} role="group" aria-label="Contexts, oldest first" onKeyDown={onKeyDown}>
          {steps.map((each, index) => (
            <button
              key={each.id} type="button" class="timeline-step" aria-pressed={index === at} tabIndex={index === at ? 0 : -1}
              title={`Context ${index + 1}, ${describe(each)}`} onClick={() => (setPlaying(false), move(index))}
            >
              <Column step={each} largest={largest} />
              <span class="step-label small num"><span class="hidden">Context </span>{index + 1} <span class="step-time muted" data-long={(times[index]?.length ?? 0) > 5 || undefined}>{times[index]}</span><span class="hidden"> {describe(each)}</span></span>
            </button>
          ))}
        </div>
      </div>
      <p class="small muted">Each column is the prompt of one context, oldest first, with its beginning at the top. What is below the bracket was new to the provider.</p>
      <ul class="legend small" aria-label="Brackets">
        <li class="legend-item"><span class="prefix-key" aria-hidden="true" />Prefix that the provider took from its cache <Explain term="Prefix" /></li>
        <li class="legend-item"><span class="prefix-key expected" aria-hidden="true" />Prefix that it could have taken</li>
      </ul>
      <BarLegend rows={steps} />
      {step && <Step step={step} before={steps[at - 1]} />}
    </section>
  );
}

function describe(step: ContextRow): string {
  const cached = step.cached === null ? "" : `, ${whole(step.cached)} cached`;
  return `${formatTime(step.at)}: ${plural(step.tokens, "token")}${cached}`;
}

/** The prompt of a context as a column, with a bracket over its cached prefix. */
function Column({ step, largest }: { step: ContextRow; largest: number }) {
  const parts = inDisplayOrder(step.components).filter((part) => part.tokens > 0);
  const height = (tokens: number) => `${(100 * Math.min(tokens, largest)) / largest}%`;
  return (
    <>
      <span class="column">
        {parts.map((part) => <span key={part.name} class={look(part.name)} style={{ height: height(part.tokens) }} />)}
      </span>
      <span class="prefixes">
        {step.expected_cached !== null && step.expected_cached > 0 && <span class="prefix expected" style={{ height: height(step.expected_cached) }} />}
        {step.cached !== null && step.cached > 0 && <span class="prefix" style={{ height: height(step.cached) }} />}
      </span>
    </>
  );
}

function Step({ step, before }: { step: ContextRow; before: ContextRow | undefined }) {
  return (
    <div class="sides">
      <section class="side" aria-label="Selected context">
        <p><a href={contextPath(step.id)}>{formatTime(step.at)}</a> <span class="muted small">{step.model} · {step.policy}</span></p>
        {step.question && <><h2>Question</h2><blockquote>{step.question}</blockquote></>}
        {step.answer && <><h2>Answer</h2><blockquote class="answer-text">{step.answer}</blockquote></>}
        <p class="row-links small">
          <a href={contextPath(step.id)}>What the model saw</a>
          {before && <a href={diffPath(before.id, step.id)}>What changed</a>}
        </p>
      </section>
      <section class="side" aria-label="Its window">
        <WindowBar bands={rowBands(step)} window={step.window} />
        <dl class="facts wide">
          <div><dt>Prompt</dt><dd>{plural(step.tokens, "token")} ({percent(step.tokens / Math.max(1, step.available))} of the budget{before && `, ${signed(step.tokens - before.tokens)}`})</dd></div>
          <div><dt>Cached prefix</dt><dd>{step.cached === null ? "not reported" : `${plural(step.cached, "token")} (${percent(step.cached / Math.max(1, step.tokens))})`}{step.expected_cached !== null && `, ${whole(step.expected_cached)} expected`}</dd></div>
          {step.cached !== null && <div><dt>New</dt><dd>{plural(Math.max(0, step.tokens - step.cached), "token")}</dd></div>}
          <div><dt>Included</dt><dd>{whole(step.candidates - step.left_out)} of {plural(step.candidates, "candidate")}</dd></div>
          {inDisplayOrder(step.components).filter((part) => part.tokens > 0).map((part) => (
            <div key={part.name}><dt><span class={`swatch ${look(part.name)}`} aria-hidden="true" /> {title(part.name)}</dt><dd class="num">{whole(part.tokens)}{before && <span class="muted"> ({signed(part.tokens - tokensOf(before, part.name))})</span>}</dd></div>
          ))}
        </dl>
      </section>
    </div>
  );
}

function tokensOf(step: ContextRow, name: string): number {
  return step.components.find((part) => part.name === name)?.tokens ?? 0;
}
