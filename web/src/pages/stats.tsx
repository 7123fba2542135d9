/** Statistics: usage, composition, answers, cost and savings, over time and by model, policy or persona. */

import { useId, useMemo } from "preact/hooks";

import { query } from "../api/client";
import { useResource } from "../api/resource";
import type { OwnSpending, Statistics, StatisticsList } from "../api/statistics";
import type { ContextList, ContextRow } from "../api/types";
import { inDisplayOrder, look, title } from "../logic/components";
import { formatPeriod, money, percent, plural, relevanceText, seconds, short, whole } from "../logic/format";
import { timeRange } from "../logic/scale";
import { setQuery, route } from "../router";
import { type DataColumn, DataTable } from "../ui/data-table";
import { Choice } from "../ui/fields";
import { FirstContext } from "../ui/first-context";
import { Explain } from "../ui/help";
import { Plot } from "../ui/plot";
import { Heading, Loaded, EmptyState } from "../ui/states";

const ALL = "all";
const TIMES = [["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"], ["30d", "last 30 days"], ["365d", "last year"], [ALL, "all time"]] as const;
const SECONDS: Record<string, number> = { "1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000, "365d": 31_536_000 };
const GROUPS = [["model", "model"], ["policy", "policy"], ["persona", "persona"]] as const;

export function StatsPage() {
  const search = route.value.query;
  const last = search.get("last") ?? "24h";
  const by = search.get("by") ?? "model";
  const over = last === "1h" || last === "24h" ? "hour" : "day";
  const within = { last: last === ALL ? "" : last };
  const whole = useResource<StatisticsList>(`/statistics${query(within)}`, { keep: true });
  const times = useResource<StatisticsList>(`/statistics${query({ ...within, by: over, limit: 10_000 })}`, { keep: true });
  const groups = useResource<StatisticsList>(`/statistics${query({ ...within, by, limit: 10_000 })}`, { keep: true });
  const found = whole.data?.statistics[0];
  return (
    <>
      <Heading title="Stats" />
      <div class="filters">
        <Choice label="Period" value={last} options={TIMES} onInput={(time) => setQuery({ last: time })} />
        <Choice label="Group by" value={by} options={GROUPS} onInput={(group) => setQuery({ by: group })} />
      </div>
      <Loaded of={whole} rows={4}>
        {({ own_calls }) => (
          <>
            {found === undefined || found.contexts === 0 ? <Nothing /> : <Summary of={found} />}
            <OwnCalls of={own_calls} />
          </>
        )}
      </Loaded>
      {found && found.contexts > 0 && (
        <>
          <Loaded of={times} rows={6}>
            {({ statistics }) => (statistics.length < FEW ? <ContextPlots seconds={SECONDS[last] ?? Infinity} /> : <Plots rows={statistics} over={over} />)}
          </Loaded>
          <Loaded of={groups} rows={3}>{({ statistics }) => <Table rows={statistics} by={by} />}</Loaded>
          {times.data && <Table rows={times.data.statistics} by={over} />}
        </>
      )}
    </>
  );
}

/** No contexts in this period; there may be older ones. */
const included = ({ candidates, left_out }: { candidates: number; left_out: number }): number => candidates - left_out;

function Nothing() {
  const any = useResource<ContextList>("/contexts?limit=1");
  return (
    <Loaded of={any} rows={3}>
      {({ contexts }) => contexts.length === 0
        ? <FirstContext />
        : <EmptyState title="No contexts in this period" text="There are older contexts." action={<a href={`/stats?last=${ALL}`}>All time</a>} />}
    </Loaded>
  );
}

function Summary({ of }: { of: Statistics }) {
  const { answers } = of;
  const warnings = Object.entries(of.warnings);
  const misses = Object.entries(answers.cache_misses);
  return (
    <>
      <dl class="tiles">
        <div><dt>Contexts</dt><dd>{whole(of.contexts)}</dd></div>
        <div><dt>Budget used <Explain term="Reserve" /></dt><dd>{percent(of.share.mean)}</dd><dd class="small muted">from {percent(of.share.min)} to {percent(of.share.max)}</dd></div>
        <div><dt>Tokens per context</dt><dd>{whole(of.tokens.mean)}</dd><dd class="small muted">max {whole(of.tokens.max)}</dd></div>
        <div><dt>Included <Explain term="Candidate" /></dt><dd>{percent(included(of) / Math.max(1, of.candidates))}</dd><dd class="small muted">{whole(included(of))} of {plural(of.candidates, "candidate")}</dd></div>
        <div><dt>Prompt cached <Explain term="Prefix" /></dt><dd>{answers.prompt ? percent(answers.cached / answers.prompt) : "–"}</dd><dd class="small muted">{answers.prompt ? `${percent(answers.expected_cached / answers.prompt)} expected` : "no usage reported"}</dd></div>
        <div><dt>Cost</dt><dd>{money(of.cost)}</dd><dd class="small muted">{of.cost === null ? "price unknown" : plural(answers.total, "answer")}</dd></div>
        <div><dt>Saved</dt><dd>{money(of.saved)}</dd><dd class="small muted">compared to sending everything</dd></div>
        <div><dt>Counting error</dt><dd>{answers.count_error === null ? "–" : percent(Math.abs(answers.count_error))}</dd><dd class="small muted">compared to reported usage</dd></div>
        <div><dt>Answer time</dt><dd>{seconds(answers.seconds)}</dd><dd class="small muted">mean</dd></div>
        <div><dt>Memories per context <Explain term="Relevance" /></dt><dd>{of.memories.per_context.toFixed(1)}</dd><dd class="small muted">{of.memories.relevance === null ? "no relevance recorded" : `${relevanceText(of.memories.relevance)} on average`}</dd></div>
        <div><dt>Vector search</dt><dd>{percent(of.vector_uptime)}</dd><dd class="small muted">{of.breaker_openings === 0 ? "never paused after failures" : `paused ${plural(of.breaker_openings, "time")} after failures`}</dd></div>
      </dl>
      <Composition of={of} />
      {misses.length > 0 && <p class="small">Prompts read again that were cached: {misses.map(([cause, count]) => `${whole(answers.missed_tokens[cause] ?? 0)} tokens in ${plural(count, "answer")} (${cause})`).join(", ")}.</p>}
      {warnings.length > 0 && <p class="small">Warnings: {warnings.map(([kind, count]) => `${kind} in ${plural(count, "context")}`).join(", ")}.</p>}
    </>
  );
}

function OwnCalls({ of }: { of: OwnSpending }) {
  if (of.kinds.length === 0) return null;
  const spent = of.kinds.map((each) => `${each.kind}: ${plural(each.calls, "call")}, ${whole(each.prompt + each.completion)} tokens, ${money(each.dollars)}${each.unpriced ? ` (${whole(each.unpriced)} without a price)` : ""}`);
  const limits = [
    ...(of.tokens_per_day === null ? [] : [`${whole(of.tokens_today)} of ${whole(of.tokens_per_day)} tokens`]),
    ...(of.dollars_per_day === null ? [] : [`${money(of.dollars_today)} of ${money(of.dollars_per_day)}`]),
  ];
  return <p class="small">Own calls of models: {spent.join("; ")}. Limit today: {limits.join(", ") || "none"}.</p>;
}

function Composition({ of }: { of: Statistics }) {
  const parts = inDisplayOrder(of.components).filter((part) => part.share > 0);
  return (
    <section aria-labelledby="composition-heading">
      <h2 id="composition-heading">Composition</h2>
      <div class="bar tall" aria-hidden="true">
        {parts.map((part) => <span key={part.name} class={`seg ${look(part.name)}`} style={{ flexGrow: String(part.share) }} />)}
      </div>
      <ul class="legend">
        {parts.map((part) => (
          <li key={part.name} class="legend-item">
            <span class={`swatch ${look(part.name)}`} aria-hidden="true" />
            <span class="legend-name">{title(part.name)}</span>
            <span class="num">{percent(part.share)}</span>
            <span class="num muted">{short(part.tokens)} per context</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const FEW = 3; // hours or days: fewer make no line, so each context is drawn instead

/** One point for each context, evenly spaced, for a store that is new or a short period. */
function ContextPlots({ seconds: length }: { seconds: number }) {
  const read = useResource<ContextList>("/contexts?limit=500");
  const drawn = useMemo(() => {
    const since = Date.now() / 1000 - length;
    const rows = (read.data?.contexts ?? []).filter((row) => row.at >= since).reverse();
    const times = rows.map((row) => row.at);
    const line = (name: string, colour: string, of: (row: ContextRow) => number, dash?: number[]) => ({ name, colour, values: rows.map(of), ...(dash && { dash }) });
    return {
      times,
      tokens: [line("used", "--accent", (row) => row.tokens), line("available", "--muted", (row) => row.available, [6, 4])],
      candidates: [line("included", "--accent", included), line("not included", "--bad", (row) => row.left_out, [6, 4])],
    };
  }, [read.data, length]);
  return (
    <section class="plots" aria-label="Plots of each context">
      <Plot title="Tokens in each context" unit="tokens" times={drawn.times} lines={drawn.tokens} />
      <Plot title="Candidates of each context" unit="candidates" times={drawn.times} lines={drawn.candidates} />
    </section>
  );
}

const BUCKETS: Record<string, number> = { hour: 3600, day: 86_400 }; // seconds

function Plots({ rows, over }: { rows: Statistics[]; over: string }) {
  const drawn = useMemo(() => {
    const bucket = BUCKETS[over] ?? 0;
    const timed = rows.filter((row) => row.begin !== null).sort((a, b) => (a.begin ?? 0) - (b.begin ?? 0));
    const line = (name: string, colour: string, of: (row: Statistics) => number | null, dash?: number[]) =>
      ({ name, colour, values: timed.map(of), ...(dash && { dash }) });
    const times = timed.map((row) => (row.begin ?? 0) + bucket / 2);
    return {
      times,
      range: timeRange(times, bucket / 2),
      contexts: [line("contexts", "--accent", (row) => row.contexts)],
      use: [line("mean", "--accent", (row) => row.share.mean), line("largest", "--muted", (row) => row.share.max, [6, 4])],
      tokens: [line("sent", "--accent", (row) => row.total_tokens), line("everything", "--muted", (row) => row.naive, [6, 4])],
      cost: [line("cost", "--accent", (row) => row.cost), line("saved", "--good", (row) => row.saved, [2, 3])],
    };
  }, [rows, over]);
  const priced = rows.some((row) => row.cost !== null);
  return (
    <section class="plots" aria-label={`Plots by ${over}`}>
      <Plot title={`Contexts per ${over}`} unit="contexts" times={drawn.times} range={drawn.range} lines={drawn.contexts} />
      <Plot title="Budget used" unit="share of the budget" times={drawn.times} range={drawn.range} lines={drawn.use} show={percent} />
      <Plot title="Tokens sent and tokens of everything" unit="tokens" times={drawn.times} range={drawn.range} lines={drawn.tokens} />
      {priced && <Plot title="Cost and savings" unit="US dollars" times={drawn.times} range={drawn.range} lines={drawn.cost} show={money} />}
    </section>
  );
}

function Table({ rows, by }: { rows: Statistics[]; by: string }) {
  const id = useId();
  const columns: [DataColumn<Statistics>, ...DataColumn<Statistics>[]] = [
    { title: by.charAt(0).toUpperCase() + by.slice(1), show: (row) => (row.begin === null ? row.key || "none" : formatPeriod(row.begin, by)) },
    { title: "Contexts", show: (row) => whole(row.contexts) },
    { title: "Budget used", show: (row) => percent(row.share.mean) },
    { title: "Mean tokens", show: (row) => whole(row.tokens.mean) },
    { title: "Included", show: (row) => `${whole(included(row))} of ${whole(row.candidates)}` },
    { title: "Answers", show: (row) => whole(row.answers.total) },
    { title: "Cached", show: (row) => (row.answers.prompt ? percent(row.answers.cached / row.answers.prompt) : "–") },
    { title: "Cost", show: (row) => money(row.cost) },
    { title: "Saved", show: (row) => money(row.saved) },
  ];
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>By {by}</h2>
      <DataTable label={`By ${by}`} columns={columns} rows={rows} />
    </section>
  );
}
