/** Memories that are not worth having: choose what to archive, and undo it. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, query } from "../api/client";
import type { Audit, Finding, FindingKind, JanitorRun, JanitorRuns, Memory } from "../api/records";
import { useResource } from "../api/resource";
import { formatTime, plural, whole } from "../logic/format";
import { choose, chooseAll, type Choices, chosenIds, firstChoices, KINDS, originText, useText } from "../logic/memories";
import { memoryOwner } from "../logic/names";
import { route, setQuery } from "../router";
import { Check, Choice, TextField } from "../ui/fields";
import { EmptyState, Heading, Loaded } from "../ui/states";

const AGES = [["30d", "30 days"], ["90d", "90 days"], ["180d", "180 days"], ["365d", "a year"]] as const;

export function AuditPage() {
  const search = route.value.query;
  const [user, age] = [search.get("user") ?? "", search.get("unused") ?? "180d"];
  const audit = useResource<Audit>(`/audit${query({ user, unused_for: age })}`, { keep: true });
  const runs = useResource<JanitorRuns>("/janitor", { keep: true });
  const reload = () => (audit.reload(), runs.reload());
  return (
    <>
      <Heading title="Clean up memories"><a class="button" href="/memories">All memories</a></Heading>
      <p class="lead">Archived memories are in no context. Nothing changes until you archive, and you can undo it.</p>
      <div class="filters" role="search" aria-label="Which memories">
        <TextField label="User" type="search" value={user} placeholder="all" onInput={(value) => setQuery({ user: value })} />
        <Choice label="Never used for" value={age} options={AGES} onInput={(unused) => setQuery({ unused })} />
      </div>
      {runs.data && <Undo runs={runs.data.runs} onDone={reload} />}
      <Loaded of={audit}>{(found) => (found.findings.length === 0 ? <Clean memories={found.memories} /> : <Proposals key={chosenKey(found)} audit={found} onDone={reload} />)}</Loaded>
    </>
  );
}

/** What is chosen belongs to one list of findings. */
function chosenKey({ findings }: Audit): string {
  return findings.map((each) => `${each.kind} ${each.id}`).join();
}

function Clean({ memories }: { memories: number }) {
  if (memories === 0) return <EmptyState title="No memories yet" text="There is nothing to clean up." action={<a href="/memories">Add a memory</a>} />;
  return <EmptyState title="Nothing to clean up" text={`There are no duplicates, contradictions or junk among ${plural(memories, "memory", "memories")}, and none that was never used.`} />;
}

/** The last clean-up, if nothing else ran after it. */
function Undo({ runs, onDone }: { runs: JanitorRun[]; onDone: () => void }) {
  const change = useChange();
  const last = runs.find((run) => run.kind === "janitor" && run.state === "done");
  if (last === undefined || Object.keys(last.facts).join() !== "memories") return null;
  const undo = async () => {
    if (await change.run(() => json(`/janitor/undo${query({ run: last.number })}`, { method: "POST" }))) onDone();
  };
  return (
    <div class="note undo" role="status">
      <span>{plural(last.facts["memories"] ?? 0, "memory", "memories")} archived on {formatTime(last.started)}.</span>
      <button type="button" disabled={change.busy} onClick={() => void undo()}>Undo</button>
      {change.error && <p class="bad" role="alert">{change.error}</p>}
    </div>
  );
}

function Proposals({ audit, onDone }: { audit: Audit; onDone: () => void }) {
  const change = useChange();
  const [choices, setChoices] = useState<Choices>(() => firstChoices(audit.findings));
  const ids = chosenIds(choices);
  const tokens = ids.reduce((sum, id) => sum + (audit.records[id]?.tokens ?? 0), 0);
  const archive = async () => {
    if (!(await change.run(() => json("/audit", { method: "POST", body: { ids } })))) return;
    onDone();
    scrollTo(0, 0); // to what was done, and its undo
  };
  return (
    <>
      {(Object.keys(KINDS) as FindingKind[]).map((kind) => (
        <Kind key={kind} kind={kind} audit={audit} choices={choices} onChoose={setChoices} />
      ))}
      <div class="apply">
        <span role="status">{plural(ids.length, "memory", "memories")} of {whole(audit.memories)} chosen, {plural(tokens, "token")}</span>
        <button type="button" class="main" disabled={ids.length === 0 || change.busy} onClick={() => void archive()}>Archive {plural(ids.length, "memory", "memories")}</button>
        {change.error && <p class="bad" role="alert">{change.error}</p>}
      </div>
    </>
  );
}

interface Chosen {
  choices: Choices;
  onChoose: (choices: Choices) => void;
}

function Kind({ kind, audit, choices, onChoose }: Chosen & { kind: FindingKind; audit: Audit }) {
  const findings = audit.findings.filter((each) => each.kind === kind);
  if (findings.length === 0) return null;
  const count = audit.counts[kind] ?? findings.length;
  const all = findings.every((each) => each.id in choices);
  return (
    <section aria-labelledby={`kind-${kind}`}>
      <h2 id={`kind-${kind}`}>{KINDS[kind].title} <span class="muted num">{whole(count)}</span></h2>
      <p class="muted">{KINDS[kind].text}{count > findings.length && ` The first ${whole(findings.length)} are listed.`}</p>
      {findings.length > 1 && <Check label={`All ${KINDS[kind].title.toLowerCase()}`} checked={all} onInput={(checked) => onChoose(chooseAll(choices, findings, checked))} />}
      <ul class="proposals">
        {findings.map((each) => <Proposal key={each.id} finding={each} audit={audit} choices={choices} onChoose={onChoose} />)}
      </ul>
    </section>
  );
}

/** A memory, with the one beside it that it repeats or that contradicts it. One of both can be chosen. */
function Proposal({ finding, audit, choices, onChoose }: Chosen & { finding: Finding; audit: Audit }) {
  const sides = [finding.id, finding.other].map((id) => audit.records[id]).filter((memory) => memory !== undefined);
  return (
    <li class="proposal">
      {sides.map((memory) => (
        <Side
          key={memory.id} memory={memory} chosen={choices[finding.id] === memory.id}
          onChoose={() => onChoose(choose(choices, finding.id, memory.id))}
        />
      ))}
      {finding.kind === "junk" && <p class="small muted">It looks like {finding.reason}.</p>}
    </li>
  );
}

function Side({ memory, chosen, onChoose }: { memory: Memory; chosen: boolean; onChoose: () => void }) {
  return (
    <label class="proposal-side" data-chosen={chosen || undefined}>
      <input type="checkbox" checked={chosen} disabled={memory.pinned} onChange={onChoose} />
      <span>
        <span class="record-text">{memory.content}</span>
        <span class="record-line small muted">
          <span class="proposal-state">{chosen ? "Archive" : "Keep"}</span>
          {memory.pinned && <span class="tag warn">pinned</span>}
          <span>{memoryOwner(memory)}</span>
          <span>{formatTime(memory.at)}</span>
          <span>{originText(memory)}</span>
          <span>{useText(memory)}</span>
        </span>
      </span>
    </label>
  );
}
