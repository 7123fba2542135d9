/** Live list of contexts, from all processes. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { json, query, errorMessage } from "../api/client";
import { type Connection, useEvents } from "../api/events";
import { useResource } from "../api/resource";
import type { Answer, ContextList, ContextRow, RunView } from "../api/types";
import { rowBands } from "../logic/components";
import { mergeRows, matches, type ContextFilter } from "../logic/feed";
import { ago, formatTime, isoTime, money, percent, plural, seconds, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { contextPath, diffPath, roomPath, runPath, timelinePath } from "../logic/routes";
import { includedText, newerRun, runFacts } from "../logic/run-facts";
import { setQuery, route } from "../router";
import { BarLegend, BudgetUse, ExchangeLines, WindowBar } from "../ui/bar";
import { Choice, NameField } from "../ui/fields";
import { FirstContext } from "../ui/first-context";
import { ErrorNote, Heading, NOT_RECORDED, Skeleton } from "../ui/states";

const PAGE = 50;

export function ContextsPage() {
  const search = route.value.query;
  const filter: ContextFilter = useMemo(
    () => ({ room: search.get("room") ?? "", persona: search.get("persona") ?? "", model: search.get("model") ?? "", user: search.get("user") ?? "", feedback: search.get("feedback") ?? "" }),
    [search],
  );
  const read = useResource<ContextList>(`/contexts${query({ ...filter, runs: true, limit: PAGE })}`, { keep: true });
  const [extra, setExtra] = useState<ContextRow[]>([]);
  const [answers, setAnswers] = useState<ReadonlyMap<string, Answer>>(new Map());
  const [runs, setRuns] = useState<ReadonlyMap<string, RunView>>(new Map());
  const [paused, setPaused] = useState(false);
  const [announcement, setAnnouncement] = useState("");
  const now = useNow();
  const [held, setHeld] = useState<ContextRow[]>([]);
  const isPaused = useRef(paused);
  isPaused.current = paused;

  const state = useEvents({
    context(row) {
      if (isPaused.current) return setHeld((rows) => [...rows, row]);
      setExtra((rows) => mergeRows(rows, [row]));
      setAnnouncement(`New context in room ${roomName(row)}, ${percent(row.tokens / Math.max(1, row.available))} of the budget`);
    },
    answer(answer) {
      const { run } = answer;
      setAnswers((all) => new Map([...all].slice(-499)).set(answer.context, answer));
      if (run) setRuns((all) => new Map([...all].slice(-499)).set(run.id, run));
    },
    connected: read.reload,
  });

  const togglePause = () => {
    setExtra((rows) => mergeRows(rows, held));
    setHeld([]);
    setPaused(!paused);
  };

  const rows = useMemo(
    () => mergeRows((read.data?.contexts ?? []).filter((row) => matches(row, filter)), extra.filter((row) => matches(row, filter)), 2000),
    [read.data, extra, filter],
  );
  const [older, setOlder] = useState<{ next: number | null } | null>(null);
  useEffect(() => setOlder(null), [filter]);
  const next = older ? older.next : (read.data?.next ?? null);

  return (
    <>
      <Heading title="Contexts">
        <p class={`live ${state}`} role="status"><span class="dot" aria-hidden="true" />{paused ? `paused, ${held.length} new` : STATES[state]}</p>
        <button type="button" aria-pressed={paused} onClick={togglePause}>{paused ? "Resume" : "Pause"}</button>
      </Heading>
      {rows.length > 0 && <p class="lead">A context is what the model saw for one answer; the requests of an agent’s task are one run. Open one to see what else the model saw, what it did not see, and why.</p>}
      <Filters filter={filter} rows={rows} />
      <p class="hidden" aria-live="polite">{announcement}</p>
      {read.error && <ErrorNote error={read.error} retry={read.reload} />}
      {read.data === null && !read.error && <Skeleton rows={6} tall />}
      {read.data !== null && rows.length === 0 && <FirstContext filtered={Object.values(filter).some(Boolean)} paused={paused} />}
      {rows.length > 0 && (
        <ol class="contexts" aria-label="Contexts, newest first" aria-busy={read.busy}>
          {rows.map((row, index) => (
            <Row key={row.run?.id ?? row.id} row={row} run={newerRun(row.run, runs.get(row.run?.id ?? ""))} answer={answers.get(row.id)} now={now} before={previous(rows, index)} />
          ))}
        </ol>
      )}
      {rows.length > 0 && <BarLegend rows={rows} />}
      {next !== null && <Older next={next} filter={filter} onRows={(list) => (setExtra((all) => mergeRows(all, list.contexts, 2000)), setOlder(list))} />}
    </>
  );
}

const STATES: Record<Connection, string> = {
  connecting: "connecting…",
  live: "live",
  lost: "connection lost, reconnecting…",
};

/** The previous context of the same room. */
function previous(rows: ContextRow[], index: number): string {
  return rows.slice(index + 1, index + 200).find((row) => row.room === rows[index]?.room)?.id ?? "";
}

/** A context of a chat, or the run of an agent, with the window of its newest context. */
function Row({ row, run, answer, now, before }: { row: ContextRow; run: RunView | null; answer: Answer | undefined; now: number; before: string }) {
  if (run && run.steps > 1) return <RunRow row={row} run={run} now={now} />;
  return (
    <li class="context-row">
      <div class="context-line">
        <a class="context-link" href={contextPath(row.id)}>
          <b>{personaName(row) || row.model}</b> in <b>{roomName(row)}</b>
        </a>
        <time class="muted" dateTime={isoTime(row.at)} title={formatTime(row.at)}>{ago(row.at, now)}</time>
      </div>
      <ExchangeLines question={row.question} answer={answer?.text || row.answer} />
      <WindowBar bands={rowBands(row)} window={row.window} />
      <div class="context-line small">
        <BudgetUse row={row} />
        <span class="muted">window {whole(row.window)} · {row.model} · {row.policy}</span>
        {answerFacts(row, answer).map((fact) => <span key={fact} class="num">{fact}</span>)}
        <span>{includedText(row)}</span>
        {row.degraded.length > 0 && <span class="tag warn" title={row.degraded.map((each) => each.text).join("; ")}>degraded</span>}
        {row.warnings.length > 0 && <span class="tag" title={row.warnings.map((each) => each.text).join("; ")}>{plural(row.warnings.length, "warning")}</span>}
        <FeedbackTag row={row} />
        {!row.recorded && <span class="tag" title={NOT_RECORDED}>summary only</span>}
        <span class="row-links">
          <a href={roomPath(row.room)}>room</a>
          <a href={timelinePath(row.room, row.id)}>timeline</a>
          {before && <a href={diffPath(before, row.id)}>changes</a>}
        </span>
      </div>
    </li>
  );
}

function RunRow({ row, run, now }: { row: ContextRow; run: RunView; now: number }) {
  const step = row.feedback ? "rated step" : "newest step";
  return (
    <li class="context-row run-row">
      <div class="context-line">
        <a class="context-link" href={runPath(run.id)}><b>{row.question || "A run"}</b></a>
        <time class="muted" dateTime={isoTime(run.end)} title={formatTime(run.end)}>{ago(run.end, now)}</time>
      </div>
      <div class="context-line small">
        <span class="muted">in {roomName(row)}{row.persona && `, ${personaName(row)}`}</span>
        {runFacts(run).map((fact) => <span key={fact} class="num">{fact}</span>)}
        {run.warnings > 0 && <span class={run.degraded > 0 ? "tag warn" : "tag"}>{plural(run.warnings, "warning")}</span>}
      </div>
      <WindowBar bands={rowBands(row)} window={row.window} />
      <div class="context-line small">
        <span class="muted">{step}:</span>
        <BudgetUse row={row} />
        <span>{includedText(row)}</span>
        <FeedbackTag row={row} />
        <span class="row-links">
          <a href={roomPath(row.room)}>room</a>
          <a href={timelinePath(row.room, row.id)}>timeline</a>
          <a href={contextPath(row.id)}>{step}</a>
        </span>
      </div>
    </li>
  );
}

function FeedbackTag({ row: { feedback } }: { row: ContextRow }) {
  return feedback && <span class={feedback.rating === "bad" ? "tag warn" : "tag"} title={feedback.note || undefined}>{feedback.rating} answer</span>;
}

/** The cost, the time and the cached share of the answer, as far as they are known. One that just arrived is newer. */
function answerFacts(row: ContextRow, answer: Answer | undefined): string[] {
  const cost = answer?.cost ?? row.cost;
  const time = answer?.seconds ?? row.seconds;
  const [prompt, cached] = answer?.usage ? [answer.usage.prompt, answer.usage.cached] : [row.prompt, row.cached];
  return [
    ...(cost === null ? [] : [money(cost)]),
    ...(time === null ? [] : [seconds(time)]),
    ...(prompt && cached ? [`${percent(cached / prompt)} cached`] : []),
  ];
}

const FEEDBACK = [["", "all"], ["good", "good answers"], ["bad", "bad answers"]] as const;

function Filters({ filter, rows }: { filter: ContextFilter; rows: ContextRow[] }) {
  const seen = (of: (row: ContextRow) => string | null) => [...new Set(rows.map(of))].filter((name) => name !== null).sort();
  return (
    <div class="filters" role="search" aria-label="Filter contexts">
      <NameField label="Room" value={filter.room} known={seen((row) => row.room)} onChoose={(room) => setQuery({ room })} />
      <NameField label="Persona" value={filter.persona} known={seen((row) => row.persona)} onChoose={(persona) => setQuery({ persona })} />
      <NameField label="Model" value={filter.model} known={seen((row) => row.model)} onChoose={(model) => setQuery({ model })} />
      <NameField label="User" value={filter.user} known={seen((row) => row.user)} onChoose={(user) => setQuery({ user })} />
      <Choice label="Feedback" value={filter.feedback} options={FEEDBACK} onInput={(feedback) => setQuery({ feedback })} />
    </div>
  );
}

function Older({ next, filter, onRows }: { next: number; filter: ContextFilter; onRows: (list: ContextList) => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const load = () => {
    setBusy(true);
    setError("");
    json<ContextList>(`/contexts${query({ ...filter, runs: true, before: next, limit: PAGE })}`)
      .then(onRows, (problem: unknown) => setError(errorMessage(problem)))
      .finally(() => setBusy(false));
  };
  return (
    <>
      {error && <ErrorNote error={error} />}
      <p class="center"><button type="button" disabled={busy} onClick={load}>{busy ? "Loading…" : "Older contexts"}</button></p>
    </>
  );
}

/** The current time, updated so that "5 s ago" stays true. */
function useNow(): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 5000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
