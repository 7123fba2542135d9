/** One run of an agent: its task, and its steps with what each did, its tokens, its cost and its time. */

import "../styles/run.css";

import { useEffect, useMemo } from "preact/hooks";

import { path } from "../api/client";
import { useEvents } from "../api/events";
import { useResource } from "../api/resource";
import type { RunDetail, Step, StepTimes } from "../api/runs";
import { formatTime, money, percent, plural, seconds, short, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { contextPath, roomPath, timelinePath } from "../logic/routes";
import { includedText } from "../logic/run-facts";
import { bars, callText, choices, chosen, notesOf, PARTS, promptOf, stepText, sumTimes, timesOf, totalTime } from "../logic/runs";
import { route, setQuery } from "../router";
import { Heading, Loaded } from "../ui/states";

export function RunPage({ id }: { id: string }) {
  const read = useResource<RunDetail>(path`/runs/${id}`, { keep: true });
  useEvents({
    context: ({ run }) => run?.id === id && read.reload(),
    answer: ({ run }) => run?.id === id && read.reload(),
  });
  return (
    <>
      <Heading title={read.data ? `Run in ${roomName(read.data)}` : "Run"}>
        {read.data && <a class="button" href={roomPath(read.data.room)}>Room</a>}
        {read.data && <a class="button" href={timelinePath(read.data.room, read.data.steps.at(-1)?.id)}>Timeline</a>}
      </Heading>
      <Loaded of={read} rows={8}>{(detail) => <Whole detail={detail} />}</Loaded>
    </>
  );
}

function Whole({ detail }: { detail: RunDetail }) {
  const { run, steps, first } = detail;
  const search = route.value.query;
  const choice = search.get("show") ?? "all";
  const open = Number(search.get("step") ?? 0);
  const numbers = useMemo(() => new Map(steps.map((step, index) => [step, first + index])), [steps, first]);
  const shown = chosen(steps, choice);
  const slowest = Math.max(...steps.map((step) => totalTime(step.seconds)));
  useEffect(() => document.getElementById(`step-${open}`)?.scrollIntoView({ block: "center" }), [open]);
  return (
    <>
      {detail.question && <blockquote class="record-text" aria-label="Task">{detail.question}</blockquote>}
      <dl class="tiles">
        <div><dt>Steps</dt><dd>{whole(run.steps)}</dd><dd class="small muted">{[personaName(detail), ...run.models].filter(Boolean).join(", ")}</dd></div>
        <div><dt>Tokens in</dt><dd>{short(run.prompt)}</dd><dd class="small muted">{run.prompt > 0 ? `${percent(run.cached / run.prompt)} from the cache` : "not reported"}</dd></div>
        <div><dt>Tokens out</dt><dd>{short(run.completion)}</dd><dd class="small muted">{plural(run.completion, "token")}</dd></div>
        <div><dt>Cost</dt><dd>{money(run.cost)}</dd><dd class="small muted">{run.cost === null ? "price unknown" : `${money(run.cost / run.steps)} per step`}</dd></div>
        <div><dt>Time</dt><dd>{seconds(run.end - run.begin)}</dd><dd class="small muted">{sumTimes(steps).map(([part, value]) => `${PARTS[part].toLowerCase()} ${seconds(value)}`).join(", ")}</dd></div>
      </dl>
      <Chart steps={steps} first={first} open={open} />
      <section aria-labelledby="steps-heading">
        <h2 id="steps-heading">Steps</h2>
        {first > 1 && <p class="small muted">The newest {whole(steps.length)} of {whole(run.steps)} are listed.</p>}
        <p class="step-choices" role="group" aria-label="Which steps">
          {choices(steps).map(([name, title, count]) => (
            <button key={name} type="button" aria-pressed={choice === name} onClick={() => setQuery({ show: name === "all" ? null : name, step: null })}>{title} <span class="num muted">{whole(count)}</span></button>
          ))}
        </p>
        <ol class="steps">
          {shown.map((step) => <Row key={step.id} step={step} number={numbers.get(step) ?? 0} open={numbers.get(step) === open} slowest={slowest} />)}
        </ol>
      </section>
    </>
  );
}

/** The tokens of each prompt. The part that came from the cache is darker, and steps with warnings are marked. */
function Chart({ steps, first, open }: { steps: Step[]; first: number; open: number }) {
  if (steps.length < 2) return null;
  const largest = Math.max(1, ...steps.map(promptOf));
  const noted = (step: Step) => notesOf(step).length > 0;
  const choose = (event: MouseEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const share = (event.clientX - box.left) / Math.max(1, box.width);
    setQuery({ step: String(first + Math.min(steps.length - 1, Math.max(0, Math.floor(share * steps.length)))), show: null });
  };
  return (
    <section aria-labelledby="prompts-heading">
      <h2 id="prompts-heading">Tokens of each prompt</h2>
      <svg class="run-chart" viewBox={`0 0 ${steps.length} 100`} preserveAspectRatio="none" role="img" onClick={choose}
        aria-label={`The prompts of ${plural(steps.length, "step")}, up to ${plural(largest, "token")}. ${whole(steps.filter(noted).length)} have warnings.`}>
        {open >= first && <rect class="chosen" x={open - first} y="0" width="1" height="100" />}
        <path class="sent" d={bars(steps.map(promptOf), largest)} />
        <path class="cached" d={bars(steps.map((step) => step.cached), largest)} />
        <path class="noted" d={bars(steps.map((step) => (noted(step) ? 4 : null)), 100)} />
      </svg>
      <p class="small muted run-keys">
        <span><i class="sent" aria-hidden="true" /> read anew</span><span><i class="cached" aria-hidden="true" /> from the cache</span>
        {steps.some(noted) && <span><i class="noted" aria-hidden="true" /> warning</span>}
        <span>up to {plural(largest, "token")}. Click one to go to its step.</span>
      </p>
    </section>
  );
}

function Row({ step, number, open, slowest }: { step: Step; number: number; open: boolean; slowest: number }) {
  const notes = notesOf(step).length;
  return (
    <li id={`step-${number}`} data-chosen={open || undefined}>
      <details open={open}>
        <summary>
          <span class="num muted step-number">{whole(number)}</span>
          <span class="step-text"><b>{stepText(step)}</b> {step.calls.length > 0 && <span class="muted">{step.calls.map(callText).join("; ")}</span>}</span>
          <span class="step-facts small">
            {notes > 0 && <span class="tag warn">{plural(notes, "warning")}</span>}
            {step.recalls > 0 && <span class="tag">{plural(step.recalls, "recall")}</span>}
            <span class="num">{plural(promptOf(step), "token")}</span>
            <span class="num">{money(step.cost)}</span>
            <span class="num">{seconds(totalTime(step.seconds))}</span>
          </span>
          <TimeBar times={step.seconds} longest={slowest} />
        </summary>
        <Parts step={step} />
      </details>
    </li>
  );
}

/** Where the time of a step went, beside that of the slowest one. */
function TimeBar({ times, longest }: { times: StepTimes; longest: number }) {
  return (
    <span class="step-time" aria-hidden="true">
      {timesOf(times).map(([part, value]) => (
        <span key={part} class={`part-${part}`} style={{ width: `${(100 * value) / Math.max(longest, 1e-9)}%` }} title={`${PARTS[part]}: ${seconds(value)}`} />
      ))}
    </span>
  );
}

function Parts({ step }: { step: Step }) {
  const { prompt, cached, completion } = step;
  const about: Record<string, string> = {
    build: `${whole(step.tokens)} of ${whole(step.available)} available tokens · ${includedText(step)}`,
    model: [
      step.model,
      ...(prompt === null ? [] : [`${plural(prompt, "token")} in, ${percent((cached ?? 0) / Math.max(1, prompt))} cached, ${whole(completion ?? 0)} out`]),
      ...(step.cost === null ? [] : [money(step.cost)]),
      ...(step.finish ? [step.finish] : []),
    ].join(" · "),
  };
  return (
    <div class="step-parts">
      <ul>
        {timesOf(step.seconds).map(([part, value]) => (
          <li key={part}>
            <span><i class={`part-${part}`} aria-hidden="true" /> {PARTS[part]}</span> <span class="num">{seconds(value)}</span> <span class="muted">{about[part]}</span>
            {part === "tools" && step.calls.length > 0 && <ul>{step.calls.map((call, index) => <li key={index}><b>{call.name}</b> <code>{call.arguments}</code></li>)}</ul>}
          </li>
        ))}
        {step.recalls > 0 && <li><span>Recall</span> <span class="num">{plural(step.recalls, "call")}</span></li>}
      </ul>
      {notesOf(step).map((note) => <p key={note} class="note small">{note}</p>)}
      <p><a href={contextPath(step.id)}>Open the context</a> <span class="small muted">{formatTime(step.at)}{!step.recorded && ", summary only"}</span></p>
    </div>
  );
}
