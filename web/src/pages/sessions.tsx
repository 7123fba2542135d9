/** Sessions of coding agents on this machine. */

import { useFeatures } from "../api/features";
import { usePages } from "../api/pages";
import type { SessionList, SessionRow } from "../api/sessions";
import { formatTime, whole } from "../logic/format";
import { sessionPath } from "../logic/routes";
import { PROGRAMS } from "../logic/sessions";
import { route, setQuery } from "../router";
import { Choice, TextField } from "../ui/fields";
import { More } from "../ui/more";
import { EmptyState, Heading, Loaded, Shell } from "../ui/states";

export function SessionsPage() {
  const features = useFeatures();
  return (
    <>
      <Heading title="Sessions" />
      <Loaded of={features}>{({ sessions }) => (sessions ? <List /> : <SwitchedOff />)}</Loaded>
    </>
  );
}

/** Sessions are files in the home folder of whoever runs the server. */
export function SwitchedOff() {
  return (
    <EmptyState title="Sessions are switched off" text="Claude Code, Codex, opencode, Hermes and Gemini CLI keep their sessions as files in your home folder. To see what filled their windows, start the server on your own machine with:">
      <Shell>brimful serve --sessions</Shell>
      <p>Nothing is sent anywhere, and the files are only read.</p>
    </EmptyState>
  );
}

function List() {
  const search = route.value.query;
  const [q, program] = [search.get("q") ?? "", search.get("program") ?? ""];
  const list = usePages<SessionList>("/sessions", { q, program }, "after");
  const rows = list.pages.flatMap((page) => page.sessions);
  const programs = list.first.data?.programs ?? {};
  const options = Object.entries(programs).map(([name, count]) => [name, `${PROGRAMS[name] ?? name} (${whole(count)})`] as const);
  return (
    <>
      <div class="filters" role="search" aria-label="Search sessions">
        <TextField label="Search" type="search" grow value={q} placeholder="words of the task or folder" onInput={(value) => setQuery({ q: value })} />
        <Choice label="Program" value={program} options={[["", "all"], ...options]} onInput={(value) => setQuery({ program: value })} />
      </div>
      <Loaded of={list.first} rows={8}>
        {() => rows.length === 0 ? <Nothing filtered={options.length > 0} /> : (
          <>
            <ul class="contexts" aria-label="Sessions">{rows.map((each) => <Row key={each.id} session={each} />)}</ul>
            <More of={list} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Row({ session }: { session: SessionRow }) {
  return (
    <li class="context-row">
      <div class="context-line">
        <a class="context-link" href={sessionPath(session.id)}><b>{session.title || "Without a task"}</b></a>
        <span class="tag small">{PROGRAMS[session.program] ?? session.program}</span>
      </div>
      <div class="context-line small muted">
        {session.folder && <code>{session.folder}</code>}
        <span>{formatTime(session.modified)}</span>
      </div>
    </li>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState title="No matching sessions" text="Try other words, or all programs." />;
  return <EmptyState title="No sessions on this machine" text="When you have used Claude Code, Codex, opencode, Hermes or Gemini CLI, their sessions are listed here." />;
}
