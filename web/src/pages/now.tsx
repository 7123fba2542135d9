/** What happens now: contexts as they are built, whoever builds them. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { json, key, query, words } from "../api/client";
import { type Connection, follow } from "../api/events";
import { useResource } from "../api/resource";
import type { Answer, ContextList, ContextRow } from "../api/types";
import { bandsOf } from "../logic/components";
import { merged, wanted, type Wanted } from "../logic/feed";
import { ago, machine, moment, percent, plural, seconds, whole } from "../logic/format";
import { personaName, roomName } from "../logic/names";
import { contextPath, diffPath, roomPath } from "../logic/routes";
import { ask, route } from "../router";
import { WindowBar } from "../ui/bar";
import { NameField } from "../ui/fields";
import { FirstContext } from "../ui/first-context";
import { Failed, Heading, Skeleton } from "../ui/states";

const PAGE = 50;

export function NowPage() {
  const search = route.value.query;
  const filter: Wanted = useMemo(
    () => ({ room: search.get("room") ?? "", persona: search.get("persona") ?? "", model: search.get("model") ?? "" }),
    [search],
  );
  const read = useResource<ContextList>(`/contexts${query({ ...filter, limit: PAGE })}`, { keep: true });
  const [extra, setExtra] = useState<ContextRow[]>([]);
  const [answers, setAnswers] = useState<ReadonlyMap<string, Answer>>(new Map());
  const [paused, setPaused] = useState(false);
  const [said, setSaid] = useState("");
  const now = useNow();
  const held = useRef<ContextRow[]>([]);
  const isPaused = useRef(paused);
  isPaused.current = paused;

  const state = useEvents({
    context(row) {
      if (isPaused.current) return void held.current.push(row);
      setExtra((rows) => merged(rows, [row]));
      setSaid(`New context in room ${roomName(row)}, ${percent(row.tokens / row.window)} of the window`);
    },
    answer: (answer) => setAnswers((all) => new Map([...all].slice(-499)).set(answer.context, answer)),
    connected: read.reload,
  });

  const goOn = () => {
    if (paused) setExtra((rows) => merged(rows, held.current));
    held.current = [];
    setPaused(!paused);
  };

  const rows = useMemo(
    () => merged(read.data?.contexts ?? [], extra, 2000).filter((row) => wanted(row, filter)),
    [read.data, extra, filter],
  );
  const [older, setOlder] = useState<{ next: number | null } | null>(null);
  useEffect(() => setOlder(null), [filter]);
  const next = older ? older.next : (read.data?.next ?? null);

  return (
    <>
      <Heading title="Now">
        <p class={`live ${state}`} role="status"><span class="dot" aria-hidden="true" />{STATES[state]}</p>
        <button type="button" aria-pressed={paused} onClick={goOn}>{paused ? "Go on" : "Pause"}</button>
      </Heading>
      <Filters filter={filter} rows={rows} />
      <p class="hidden" aria-live="polite">{said}</p>
      {read.error && <Failed error={read.error} retry={read.reload} />}
      {read.data === null && !read.error && <Skeleton rows={6} tall />}
      {read.data !== null && rows.length === 0 && <FirstContext filtered={Object.values(filter).some(Boolean)} />}
      {rows.length > 0 && (
        <ol class="contexts" aria-label="Contexts, newest first" aria-busy={read.busy}>
          {rows.map((row, index) => (
            <Row key={row.id} row={row} answer={answers.get(row.id)} now={now} before={previous(rows, index)} />
          ))}
        </ol>
      )}
      {next !== null && <Older next={next} filter={filter} onRows={(list) => (setExtra((all) => merged(all, list.contexts, 2000)), setOlder(list))} />}
    </>
  );
}

const STATES: Record<Connection, string> = {
  connecting: "connecting…",
  live: "live",
  lost: "connection lost, trying again",
};

/** The context that was built before in the same room, to compare with. */
function previous(rows: ContextRow[], index: number): string {
  return rows.slice(index + 1, index + 200).find((row) => row.room === rows[index]?.room)?.id ?? "";
}

function Row({ row, answer, now, before }: { row: ContextRow; answer: Answer | undefined; now: number; before: string }) {
  return (
    <li class="context-row">
      <div class="context-line">
        <a class="context-link" href={contextPath(row.id)}>
          <b>{personaName(row) || row.model}</b> in <b>{roomName(row)}</b>
        </a>
        <time class="muted" dateTime={machine(row.at)} title={moment(row.at)}>{ago(row.at, now)}</time>
      </div>
      <WindowBar bands={bandsOf(row)} window={row.window} />
      <div class="context-line small">
        <span><b class="num">{percent(row.tokens / row.window)}</b> <span class="muted">of {whole(row.window)}</span></span>
        <span class="muted">{row.model} · {row.policy}</span>
        <span>{plural(row.candidates, "candidate")}, <b>{whole(row.left_out)}</b> left out</span>
        {answer && <span class="muted">answered{answer.seconds !== null && ` in ${seconds(answer.seconds)}`}{answer.usage && `, ${plural(answer.usage.completion, "token")}`}</span>}
        {row.degraded.length > 0 && <span class="tag warn" title={row.degraded.map((each) => each.text).join("; ")}>degraded</span>}
        {row.warnings.length > 0 && <span class="tag" title={row.warnings.map((each) => each.text).join("; ")}>{plural(row.warnings.length, "warning")}</span>}
        <span class="row-links">
          <a href={roomPath(row.room)}>room</a>
          {before && <a href={diffPath(before, row.id)}>what changed</a>}
        </span>
      </div>
    </li>
  );
}

function Filters({ filter, rows }: { filter: Wanted; rows: ContextRow[] }) {
  const seen = (of: (row: ContextRow) => string | null) => [...new Set(rows.map(of))].filter((name) => name !== null).sort();
  return (
    <div class="filters" role="search" aria-label="Filter contexts">
      <NameField label="Room" value={filter.room} known={seen((row) => row.room)} onChoose={(room) => ask({ room })} />
      <NameField label="Persona" value={filter.persona} known={seen((row) => row.persona)} onChoose={(persona) => ask({ persona })} />
      <NameField label="Model" value={filter.model} known={seen((row) => row.model)} onChoose={(model) => ask({ model })} />
    </div>
  );
}

function Older({ next, filter, onRows }: { next: number; filter: Wanted; onRows: (list: ContextList) => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const load = () => {
    setBusy(true);
    setError("");
    json<ContextList>(`/contexts${query({ ...filter, before: next, limit: PAGE })}`)
      .then(onRows, (problem: unknown) => setError(words(problem)))
      .finally(() => setBusy(false));
  };
  return (
    <>
      {error && <Failed error={error} />}
      <p class="center"><button type="button" disabled={busy} onClick={load}>{busy ? "Loading…" : "Older contexts"}</button></p>
    </>
  );
}

interface Told {
  context(row: ContextRow): void;
  answer(answer: Answer): void;
  connected(): void;
}

/** Follow the server's events; whenever the connection is new, what came meanwhile is read. */
function useEvents(told: Told): Connection {
  const [state, setState] = useState<Connection>("connecting");
  const latest = useRef(told);
  latest.current = told;
  const secret = key.value;
  useEffect(() => {
    const controller = new AbortController();
    void follow(
      {
        event({ event, data }) {
          if (event === "context") latest.current.context(JSON.parse(data) as ContextRow);
          else if (event === "answer") latest.current.answer(JSON.parse(data) as Answer);
        },
        state(next) {
          setState(next);
          if (next === "live") latest.current.connected();
        },
      },
      controller.signal,
    );
    return () => controller.abort();
  }, [secret]);
  return state;
}

/** The present second, so that "5 s ago" does not stand still. */
function useNow(): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 5000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
