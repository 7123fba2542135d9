/** What an operator looks at: upstreams, keys, what they spend, limits and jobs. No secret is here, nor does the server send one. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import { query } from "../api/client";
import { useFeatures } from "../api/features";
import type { ApiKey, ApiKeys, Job, Jobs, LimitList, ServerStatus } from "../api/admin";
import { type Resource, useResource } from "../api/resource";
import type { Statistics, StatisticsList } from "../api/statistics";
import { formatTime, money, percent, plural, whole } from "../logic/format";
import { defaultLimits, keyBounds, keyState, limitRows } from "../logic/admin";
import { route, setQuery } from "../router";
import { DataTable } from "../ui/data-table";
import { Choice } from "../ui/fields";
import { Heading, Loaded } from "../ui/states";

const GROUPS = [["key", "key"], ["user", "user"], ["model", "model"]] as const;
const TIMES = [["24h", "last 24 hours"], ["7d", "last 7 days"], ["30d", "last 30 days"]] as const;
const STATES = { answers: ["good", "answered"], rests: ["muted", "asked to wait"], fails: ["bad", "failed"], untried: ["muted", "none yet"] } as const;
const MOST = 1_000; // keys and limits, which are one page
const MEGABYTE = 1_000_000;

export function AdminPage() {
  const may = useFeatures().data;
  const status = useResource<ServerStatus>(may?.admin ? "/status" : null);
  const keys = useResource<ApiKeys>(may?.keys ? `/keys?limit=${MOST}` : null);
  const limits = useResource<LimitList>(may?.limits ? `/limits?limit=${MOST}` : null);
  const jobs = useResource<Jobs>(may?.admin ? "/jobs" : null);
  const names = useMemo(() => new Map(keys.data?.keys.map((key) => [key.id, key.name])), [keys.data]);
  return (
    <>
      <Heading title="Admin" />
      {may?.admin && <Part id="server" title="Server" of={status}>{(found) => <Server of={found} />}</Part>}
      {may?.keys && <Part id="keys" title="API keys" of={keys}>{(found) => <><Keys keys={found.keys} /><First of={found} /></>}</Part>}
      <Spend names={names} />
      {may?.limits && <Part id="limits" title="Limits" of={limits}>{(found) => <><Limits of={found} /><First of={found} /></>}</Part>}
      {may?.admin && <Part id="jobs" title="Background jobs" of={jobs}>{(found) => <JobTable jobs={found.jobs} />}</Part>}
    </>
  );
}

/** Says that a list is longer than what is shown of it. */
function First({ of }: { of: { next: number | null } }) {
  return of.next === null ? null : <p class="muted">Only the first {whole(of.next)} are shown.</p>;
}

function Part<T>({ id, title, of, children }: { id: string; title: string; of: Resource<T>; children: (data: T) => ComponentChildren }) {
  return (
    <section aria-labelledby={`${id}-heading`}>
      <h2 id={`${id}-heading`}>{title}</h2>
      <Loaded of={of} rows={2}>{children}</Loaded>
    </section>
  );
}

function Server({ of }: { of: ServerStatus }) {
  const upstreams = Object.entries(of.upstreams);
  return (
    <>
      {upstreams.length === 0 ? <p class="muted">No upstreams: this server does not answer with a model.</p> : (
        <DataTable
          label="Upstreams"
          columns={[
            { title: "Upstream", show: ([name]) => name },
            { title: "Last request", text: true, show: ([, state]) => <span class={STATES[state][0]}>{STATES[state][1]}</span> },
          ]}
          rows={upstreams}
        />
      )}
      <p class="small">
        This process has {plural(of.engines, "open engine")} of at most {whole(of.max_engines)}, runs {plural(of.running_jobs, "job")}
        {of.memory_bytes > 0 && `, and uses ${whole(of.memory_bytes / MEGABYTE)} MB of memory, ${whole(of.cache_bytes / MEGABYTE)} MB of them for caches`}.
      </p>
    </>
  );
}

function Keys({ keys }: { keys: ApiKey[] }) {
  const now = Date.now() / 1000;
  if (keys.length === 0) return <p class="muted">No keys.</p>;
  return (
    <DataTable
      label="API keys"
      columns={[
        { title: "Name", show: (key) => key.name || key.id },
        { title: "State", text: true, show: (key) => <span class={keyState(key, now) === "active" ? "good" : "bad"}>{keyState(key, now)}</span> },
        { title: "Scopes", text: true, show: (key) => key.scopes.join(", ") },
        { title: "Bounds", text: true, show: keyBounds },
        { title: "Expires", text: true, show: (key) => (key.expires === null ? "never" : formatTime(key.expires)) },
        { title: "Last used", text: true, show: (key) => (key.used === null ? "never" : formatTime(key.used)) },
      ]}
      rows={keys}
    />
  );
}

function Spend({ names }: { names: Map<string, string> }) {
  const search = route.value.query;
  const [by, last] = [search.get("by") ?? "key", search.get("last") ?? "30d"];
  const found = useResource<StatisticsList>(`/statistics${query({ by, last, limit: 10 * MOST })}`, { keep: true });
  const name = (row: Statistics) => (by === "key" && names.get(row.key)) || row.key || "none";
  return (
    <Part id="spend" title="Spend" of={found}>
      {({ statistics, next }) => (
        <>
          <div class="filters">
            <Choice label="By" value={by} options={GROUPS} onInput={(value) => setQuery({ by: value })} />
            <Choice label="Period" value={last} options={TIMES} onInput={(value) => setQuery({ last: value })} />
          </div>
          {statistics.length === 0 ? <p class="muted">No requests in this period.</p> : (
            <DataTable
              label={`Spend by ${by}`}
              columns={[
                { title: by.charAt(0).toUpperCase() + by.slice(1), show: name },
                { title: "Answers", show: (row) => whole(row.answers.total) },
                { title: "Prompt tokens", show: (row) => whole(row.answers.prompt) },
                { title: "Cached", show: (row) => (row.answers.prompt ? percent(row.answers.cached / row.answers.prompt) : "–") },
                { title: "Answer tokens", show: (row) => whole(row.answers.completion) },
                { title: "Cost", show: (row) => money(row.cost) },
              ]}
              rows={[...statistics].sort((a, b) => (b.cost ?? 0) - (a.cost ?? 0) || b.answers.prompt - a.answers.prompt)}
            />
          )}
          <First of={{ next }} />
        </>
      )}
    </Part>
  );
}

function Limits({ of }: { of: LimitList }) {
  const rows = limitRows(of);
  const [keys, users] = [defaultLimits(of.defaults.key), defaultLimits(of.defaults.user)];
  return (
    <>
      {rows.length > 0 && (
        <DataTable
          label="Limits"
          columns={[
            { title: "For", show: (row) => row.who },
            { title: "Limit", text: true, show: (row) => row.limit },
            { title: "At most", show: (row) => row.most },
            { title: "Used", show: (row) => row.used },
            { title: "Share", show: (row) => (row.share === null ? "–" : <span class={row.share >= 1 ? "bad" : ""}>{percent(row.share)}</span>) },
          ]}
          rows={rows}
        />
      )}
      <p class="small">Every {rows.length > 0 ? "other " : ""}key: {keys || "no limit"}. Every {rows.length > 0 ? "other " : ""}user: {users || "no limit"}.</p>
    </>
  );
}

function JobTable({ jobs }: { jobs: Job[] }) {
  const now = Date.now() / 1000;
  if (jobs.length === 0) return <p class="muted">Nothing to do.</p>;
  return (
    <DataTable
      label="Background jobs"
      columns={[
        { title: "Job", show: (job) => (job.subject ? `${job.kind}: ${job.subject}` : job.kind) },
        { title: "Tenant", text: true, show: (job) => job.tenant },
        { title: "Due", text: true, show: (job) => (job.due <= now ? "now" : formatTime(job.due)) },
        { title: "Worker", text: true, show: (job) => job.worker || "none" },
        { title: "Attempts", show: (job) => whole(job.attempts) },
        { title: "Error", text: true, show: (job) => (job.error ? <span class="bad">{job.error}</span> : "–") },
      ]}
      rows={jobs}
    />
  );
}
