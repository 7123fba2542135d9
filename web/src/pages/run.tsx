/** One run of an agent: its task, and its steps with what each did, its tokens, its cost and its time. */

import "../styles/run.css";

import { useEffect, useMemo, useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path, query } from "../api/client";
import { type RunDetail, type Step, type StepRecall, type StepTimes, useRun } from "../api/runs";
import { formatTime, money, percent, plural, seconds, short, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { contextPath, roomPath, timelinePath } from "../logic/routes";
import { nextRow } from "../logic/rows";
import { includedText } from "../logic/run-facts";
import { bars, callText, choices, chosen, notesOf, pagesOf, type Part, PARTS, partsOf, promptOf, stepText, sumTimes, timesOf, totalTime } from "../logic/runs";
import { route, setQuery } from "../router";
import { LongText, RecalledText } from "../ui/answers";
import { Fold } from "../ui/fold";
import { ErrorNote, Heading, Loaded } from "../ui/states";

const PAGE = 100; // steps

export function RunPage({ id }: { id: string }) {
  const read = useRun(id);
  return (
    <>
      <Heading title={read.data ? `Run in ${roomName(read.data)}` : "Run"}>
        {read.data && <a class="button" href={roomPath(read.data.room)}>Room</a>}
        {read.data && <a class="button" href={timelinePath(read.data.room, read.data.steps.at(-1)?.id)}>Timeline</a>}
      </Heading>
      <Loaded of={read} rows={8}>{(detail) => <Whole detail={detail} add={read.addEarlier} />}</Loaded>
    </>
  );
}

function Whole({ detail, add }: { detail: RunDetail; add: (earlier: RunDetail) => void }) {
  const { run, steps, first } = detail;
  const search = route.value.query;
  const choice = search.get("show") ?? "all";
  const text = search.get("find") ?? "";
  const open = Number(search.get("step") ?? 0);
  const numbers = useMemo(() => new Map(steps.map((step, index) => [step, first + index])), [steps, first]);
  const shown = useMemo(() => chosen(steps, choice, text), [steps, choice, text]);
  const pages = pagesOf(shown, PAGE);
  const opened = pages.findIndex((page) => page.some((step) => numbers.get(step) === open));
  const at = Math.min(Number(search.get("page") ?? 0) || Math.max(0, opened) + 1, Math.max(1, pages.length)) - 1;
  const listed = pages[at] ?? [];
  const slowest = useMemo(() => Math.max(...steps.map((step) => totalTime(step.seconds))), [steps]);
  const pageChoice = pages.length > 1 && (
    <p class="step-choices" role="group" aria-label="Pages of steps">
      {pages.map((page, index) => <button key={index} type="button" aria-pressed={index === at} onClick={() => setQuery({ page: String(index + 1), step: null })}>{whole(numbers.get(page[0] as Step) ?? 0)}–{whole(numbers.get(page.at(-1) as Step) ?? 0)}</button>)}
    </p>
  );
  useEffect(() => showStep(open), [open]);
  return (
    <>
      {detail.question && <div class="task"><LongText name="task" text={detail.question} /></div>}
      <dl class="tiles run-tiles">
        <div><dt>Steps</dt><dd>{whole(run.steps)}</dd><dd class="small muted">{[personaName(detail), ...run.models].filter(Boolean).join(", ")}</dd></div>
        <div><dt>Tokens in</dt><dd>{short(run.prompt)}</dd><dd class="small muted">{run.prompt > 0 ? `${percent(run.cached / run.prompt)} from the cache` : "not reported"}</dd></div>
        <div><dt>Tokens out</dt><dd>{short(run.completion)}</dd><dd class="small muted">{plural(run.completion, "token")}</dd></div>
        <div><dt>Cost</dt><dd>{money(run.cost)}</dd><dd class="small muted">{run.cost === null ? "price unknown" : `${money(run.cost / run.steps)} per step`}</dd></div>
        <div><dt>Time</dt><dd>{seconds(run.end - run.begin)}</dd><dd class="small muted run-keys">{sumTimes(steps).map(([part, value]) => <span key={part}><i class={`part-${part}`} aria-hidden="true" /> {PARTS[part].toLowerCase()} {seconds(value)}</span>)}</dd></div>
      </dl>
      <Chart steps={steps} first={first} open={open} />
      <section aria-labelledby="steps-heading">
        <h2 id="steps-heading">Steps</h2>
        {first > 1 && <Earlier detail={detail} add={add} />}
        <div class="step-search" role="search" aria-label="Find steps">
          <input type="search" aria-label="Find steps" placeholder="Find a tool, an argument, an answer…" value={text} onInput={(event) => setQuery({ find: event.currentTarget.value, step: null, page: null })} />
          <p class="step-choices" role="group" aria-label="Which steps">
            {choices(steps).map(([name, title, count]) => (
              <button key={name} type="button" aria-pressed={choice === name} onClick={() => setQuery({ show: name === "all" ? null : name, step: null, page: null })}>{title} <span class="num muted">{whole(count)}</span></button>
            ))}
          </p>
        </div>
        {pageChoice}
        <p class="small muted" role="status">{text && (shown.length > 0 ? `${plural(shown.length, "step")} found. ` : "No step was found.")}</p>
        <ol class="steps" onKeyDown={moveFocus}>
          {listed.map((step) => <Row key={step.id} step={step} number={numbers.get(step) ?? 0} page={at + 1} chosen={numbers.get(step) === open} slowest={slowest} />)}
        </ol>
        {pageChoice}
        <p class="small muted">Each bar shows where the time of a step went, beside the slowest one. The cost is that of the model’s answer; what tools and embedders cost is not known. “–” means that a time was not recorded.</p>
      </section>
    </>
  );
}

/** Scroll to a step, unless it is visible. */
function showStep(number: number): void {
  const row = document.getElementById(`step-${number}`);
  const { top } = row?.getBoundingClientRect() ?? { top: 0 };
  if (row && (top < 0 || top > innerHeight * 0.8)) row.scrollIntoView({ block: "center" });
}

/** Up and down move from step to step, left and right close and open one. */
function moveFocus(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>(".steps > li > details > summary")];
  const at = all.indexOf(event.target as HTMLElement);
  const details = all[at]?.parentElement as HTMLDetailsElement | undefined;
  const next = nextRow(event.key, at, all.length, 10);
  if (!details || event.altKey || event.ctrlKey || event.metaKey) return;
  if (next !== null) all[next]?.focus();
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") details.open = event.key === "ArrowRight";
  else return;
  event.preventDefault();
}

/** Says that only the newest steps are loaded, and loads those before them. */
function Earlier({ detail, add }: { detail: RunDetail; add: (earlier: RunDetail) => void }) {
  const { run, steps, first } = detail;
  const change = useChange();
  const load = () => change.run(async () => add(await json<RunDetail>(path`/runs/${run.id}` + query({ before: steps[0]?.number }))));
  return (
    <>
      {change.error && <ErrorNote error={change.error} />}
      <p class="small muted">The newest {whole(steps.length)} of {whole(run.steps)} steps are listed. <button type="button" class="quiet" disabled={change.busy} onClick={() => void load()}>{change.busy ? "Loading…" : `Load those before step ${whole(first)}`}</button></p>
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
    setQuery({ step: String(first + Math.min(steps.length - 1, Math.max(0, Math.floor(share * steps.length)))), show: null, find: null, page: null });
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

function Row({ step, number, page, chosen, slowest }: { step: Step; number: number; page: number; chosen: boolean; slowest: number }) {
  const [open, setOpen] = useState(chosen);
  const { feedback } = step;
  const notes = notesOf(step).length;
  useEffect(() => {
    if (chosen) setOpen(true);
  }, [chosen]);
  const toggle = (now: boolean) => {
    setOpen(now);
    if (now === open) return;
    if (now) setQuery({ step: String(number) });
    else if (chosen) setQuery({ step: null, page: String(page) });
  };
  return (
    <li id={`step-${number}`} data-chosen={chosen || undefined}>
      <details open={open} onToggle={(event) => toggle(event.currentTarget.open)}>
        <summary class="step-line">
          <span class="num muted step-number">{whole(number)}</span>
          <span class="step-text"><b>{stepText(step)}</b> {step.calls.length > 0 && <span class="muted">{step.calls.map(callText).join("; ")}</span>}</span>
          <span class="step-tags small">
            {feedback && <span class={feedback.rating === "bad" ? "tag warn" : "tag"}>{feedback.rating} answer</span>}
            {notes > 0 && <span class="tag warn">{plural(notes, "warning")}</span>}
            {step.recalls.length > 0 && <span class="tag">{plural(step.recalls.length, "recall")}</span>}
          </span>
          <Numbers tokens={plural(promptOf(step), "token")} cost={step.cost} time={totalTime(step.seconds)} />
          <TimeBar times={step.seconds} longest={slowest} />
        </summary>
        {open && <Parts step={step} />}
      </details>
    </li>
  );
}

/** Tokens, cost and time, each in a column. What has none stays empty. */
function Numbers({ tokens, cost, time }: { tokens?: string; cost?: number | null; time?: number | null }) {
  return (
    <span class="step-numbers small num">
      <span>{tokens}</span>
      <span>{cost !== undefined && money(cost)}</span>
      <span>{time !== undefined && seconds(time)}</span>
    </span>
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
  const { prompt, cached, completion, calls, recalls, feedback } = step;
  const about: Partial<Record<Part, string>> = {
    build: `${whole(step.tokens)} of ${whole(step.available)} available tokens · ${includedText(step)}`,
    model: [
      step.model,
      ...(prompt === null ? [] : [`${plural(prompt, "token")} in, ${percent((cached ?? 0) / Math.max(1, prompt))} cached`]),
      ...(step.finish ? [step.finish] : []),
    ].join(" · "),
    ...(calls.length > 1 && { tools: `${plural(calls.length, "call")}, timed together` }),
  };
  const numbers: Partial<Record<Part, { tokens: string; cost?: number | null }>> = {
    build: { tokens: plural(step.tokens, "token") },
    model: { tokens: completion === null ? "" : `${whole(completion)} out`, cost: step.cost },
    recall: { tokens: plural(recalls.reduce((sum, each) => sum + each.tokens, 0), "token") },
  };
  return (
    <div class="step-parts">
      <ul>
        {partsOf(step).map(([part, value]) => (
          <li key={part}>
            <div class="step-line">
              <span><i class={`part-${part}`} aria-hidden="true" /> {PARTS[part]}</span>
              <span class="muted small">{about[part]}</span>
              <Numbers {...numbers[part]} time={value} />
            </div>
            {part === "tools" && calls.length > 0 && <ul>{calls.map((call, index) => <li key={index}><b>{call.name}</b> <code>{call.arguments}</code></li>)}</ul>}
            {part === "recall" && <ul>{recalls.map((recall, index) => <li key={index}><RecallDetails context={step.id} recall={recall} /></li>)}</ul>}
          </li>
        ))}
      </ul>
      {notesOf(step).map((note) => <p key={note} class="note small">{note}</p>)}
      {feedback?.note && <p class="small">Feedback: “{feedback.note}”</p>}
      <p><a href={contextPath(step.id)}>Open the context</a> <span class="small muted">{formatTime(step.at)}{!step.recorded && ", summary only"}</span></p>
    </div>
  );
}

function RecallDetails({ context, recall }: { context: string; recall: StepRecall }) {
  const { handle, query: words, tokens } = recall;
  const title = <span class="step-line"><span>{handle || words ? <>{handle && <code>{handle}</code>} {words && `“${words}”`}</> : recall.text}</span> <Numbers tokens={plural(tokens, "token")} time={recall.seconds} /></span>;
  if (!handle && !words) return title;
  return <Fold title={title}>{() => <RecalledText where={path`/contexts/${context}/recall` + query({ handle, query: words, max_tokens: Math.max(1, tokens) })} context={context} />}</Fold>;
}
