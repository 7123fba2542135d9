/** One session of a coding agent: its window over time, its cache misses, and what compactions lost. */

import { useRef, useState } from "preact/hooks";

import { useFeatures } from "../api/features";
import { type Again, type Loss, type Report, type SessionRow, type SessionView, useSession } from "../api/sessions";
import { formatTime, percent, plural, seconds, whole } from "../logic/format";
import { byCause, cachedText, causeTitle, dollars, type MissGroup, PROGRAMS, PARTS, tokensOf, total, usedParts } from "../logic/sessions";
import { Explain } from "../ui/help";
import { SessionChart } from "../ui/session-chart";
import { EmptyState, ErrorNote, Heading, Loaded, Shell, Skeleton } from "../ui/states";
import { SwitchedOff } from "./sessions";

export function SessionPage({ id }: { id: string }) {
  const features = useFeatures();
  if (features.data?.sessions) return <Session id={id} />;
  return <><Heading title="Session" /><Loaded of={features}>{() => <SwitchedOff />}</Loaded></>;
}

function Session({ id }: { id: string }) {
  const { data, error, again } = useSession(id);
  return (
    <>
      <Heading title={data?.session.title || "Session"}><a class="button" href="/sessions">All sessions</a></Heading>
      {data && <p class="lead">{PROGRAMS[data.session.program] ?? data.session.program}{data.session.folder && <> in <code>{data.session.folder}</code></>}, last used {formatTime(data.session.modified)}</p>}
      {error && <ErrorNote error={error} retry={again} />}
      {!error && (data?.report ? <Whole session={data.session} report={data.report} /> : <Reading view={data} />)}
    </>
  );
}

/** Large files take a while: each text in them is counted. */
function Reading({ view }: { view: SessionView | null }) {
  if (view === null) return <Skeleton rows={6} />;
  return (
    <section class="reading" aria-busy="true">
      <label>
        <span>Reading and counting the session: {percent(view.progress)}</span>
        <progress max={1} value={view.progress} />
      </label>
    </section>
  );
}

function Whole({ session, report }: { session: SessionRow; report: Report }) {
  const [at, setAt] = useState(report.turns.length - 1);
  const chart = useRef<HTMLElement>(null);
  if (report.requests === 0) {
    return <EmptyState title="No requests in this file" text="The file does not say what was sent to the model, so there is no window to show." />;
  }
  const show = (number: number) => {
    const index = report.turns.findIndex((turn) => turn.number >= number);
    setAt(index < 0 ? report.turns.length - 1 : index);
    chart.current?.querySelector("input")?.focus({ preventScroll: true });
    chart.current?.scrollIntoView({ block: "nearest" });
  };
  return (
    <>
      <Tiles report={report} />
      <section ref={chart} aria-labelledby="window-heading">
        <h2 id="window-heading">Window</h2>
        <p class="small muted">Tokens of each request’s prompt, oldest first. Choose one to see its numbers.</p>
        <SessionChart report={report} at={at} onMove={setAt} />
        <Selected report={report} at={at} />
      </section>
      <Misses report={report} show={show} />
      <Losses session={session} report={report} show={show} />
      <Unknown report={report} />
    </>
  );
}

function Tiles({ report }: { report: Report }) {
  return (
    <dl class="tiles">
      <div><dt>Requests</dt><dd>{whole(report.requests)}</dd><dd class="small muted">{report.model}</dd></div>
      <div><dt>Largest prompt</dt><dd>{whole(report.largest)}</dd><dd class="small muted">{report.window > 0 ? `of ${plural(report.window, "token")}` : "tokens"}</dd></div>
      <div><dt>From the cache <Explain term="Prefix" /></dt><dd>{report.prompt > 0 ? percent(report.read / report.prompt) : "–"}</dd><dd class="small muted">of {plural(report.prompt, "prompt token")}</dd></div>
      <div><dt>Cache misses</dt><dd>{whole(report.missed)}</dd><dd class="small muted">{report.missed === 0 ? "none" : `${dollars(report.missed_cost)} more`}</dd></div>
      <div><dt>Compactions</dt><dd>{whole(report.compactions)}</dd><dd class="small muted">{plural(report.losses.reduce((sum, loss) => sum + loss.used_again, 0), "thing")} needed again</dd></div>
    </dl>
  );
}

/** The numbers of the chosen request. They are the legend of the chart, too. */
function Selected({ report, at }: { report: Report; at: number }) {
  const turn = report.turns[at];
  if (turn === undefined) return null;
  const miss = report.misses.find((each) => each.turn === turn.number);
  const sum = Math.max(1, total(turn));
  return (
    <div class="chosen-turn">
      <p><b>Request {whole(turn.number)}</b> <span class="muted">{formatTime(turn.at)}</span>: <b class="num">{plural(turn.prompt, "token")}</b>, {cachedText(turn)}{turn.compacted && ", after a compaction"}</p>
      <ul class="turn-parts" aria-label={`Parts of request ${turn.number}`}>
        {usedParts(report.turns).reverse().map((part) => (
          <li key={part}>
            <span class={`swatch ${PARTS[part].look}`} aria-hidden="true" />
            <span>{PARTS[part].title}</span>
            <span class="num">{whole(tokensOf(turn, part))}</span>
            <span class="num muted">{percent(tokensOf(turn, part) / sum)}</span>
          </li>
        ))}
      </ul>
      {miss && <p class="note bad"><b>Cache miss: {causeTitle(miss.cause)}.</b> {plural(miss.tokens, "token")} read again{miss.cost !== null && `, ${dollars(miss.cost)} more than from the cache`}. {miss.advice}</p>}
    </div>
  );
}

function Misses({ report, show }: { report: Report; show: (turn: number) => void }) {
  const groups = byCause(report.misses);
  return (
    <section aria-labelledby="misses-heading">
      <h2 id="misses-heading">Cache misses</h2>
      {report.missed === 0 ? <p class="muted">{report.read > 0 ? "Every request read from the cache what it could have." : "The session used no cache."}</p> : (
        <>
          <p>{plural(report.missed, "request")} read {plural(report.missed_tokens, "token")} again that could have come from the cache{report.missed_cost === null ? ". The price of the model is not known." : <>, for <b>{dollars(report.missed_cost)}</b> more.</>}</p>
          {report.missed > report.misses.length && <p class="small muted">The first {whole(report.misses.length)} are listed.</p>}
          {groups.map((group) => <Group key={group.cause} group={group} show={show} />)}
        </>
      )}
    </section>
  );
}

function Group({ group, show }: { group: MissGroup; show: (turn: number) => void }) {
  return (
    <>
      <h3>{causeTitle(group.cause)}</h3>
      <p class="advice">{group.advice}</p>
      <ul class="misses">
        {group.misses.map((miss) => (
          <li key={miss.turn}>
            <button type="button" class="quiet" onClick={() => show(miss.turn)}>Request {whole(miss.turn)}</button>
            <span class="num">{plural(miss.tokens, "token")} read again</span>
            <span class="num muted">{seconds(miss.idle)} after the request before</span>
            <span class="num">{dollars(miss.cost)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Losses({ session, report, show }: { session: SessionRow; report: Report; show: (turn: number) => void }) {
  const found = report.losses.flatMap((loss) => loss.again)[0];
  return (
    <section aria-labelledby="losses-heading">
      <h2 id="losses-heading">What compactions lost</h2>
      {report.losses.length === 0 && <p class="muted">There was no compaction in this session.</p>}
      {report.compactions > report.losses.length && <p class="small muted">The first {whole(report.losses.length)} of {whole(report.compactions)} are listed.</p>}
      {report.losses.map((loss) => <LossPart key={loss.turn} loss={loss} show={show} />)}
      {found && <><p>To get a piece back:</p><Shell>{`brimful sessions recall ${session.name} ${found.handle}`}</Shell></>}
    </section>
  );
}

function LossPart({ loss, show }: { loss: Loss; show: (turn: number) => void }) {
  return (
    <div class="loss">
      <h3>After request {whole(loss.turn)}</h3>
      <p>{plural(loss.dropped, "piece")} dropped, {loss.used_again === 0 ? "and nothing of it was used again." : `${whole(loss.used_again)} used again later:`}</p>
      <ul class="lost">{loss.again.map((each, index) => <Needed key={index} again={each} show={show} />)}</ul>
      {loss.used_again > loss.again.length && <p class="small muted">The first {whole(loss.again.length)} are listed.</p>}
    </div>
  );
}

function Needed({ again, show }: { again: Again; show: (turn: number) => void }) {
  return (
    <li>
      <code>{again.text}</code>
      <span class="small muted">{again.is_call ? "called again" : "used again"} in <button type="button" class="quiet" onClick={() => show(again.turn)}>request {whole(again.turn)}</button> piece {again.handle}</span>
    </li>
  );
}

function Unknown({ report }: { report: Report }) {
  const unknown = Object.entries(report.unknown);
  if (unknown.length === 0) return null;
  return <p class="small muted">Not understood: {unknown.map(([reason, count]) => `${whole(count)} × ${reason}`).join(", ")}.</p>;
}
