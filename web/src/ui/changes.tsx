/** What enters, what leaves, and what is in or out for another reason. */

import type { Change, Outcome } from "../api/types";
import { look } from "../logic/components";
import { plural, whole } from "../logic/format";
import { itemPath } from "../logic/routes";
import { OutcomeBadge } from "./outcome";

const MOST = 200;

export function Changes({ entered, left, changed, context, from = context }: {
  entered: Change[];
  left: Change[];
  changed: Change[];
  context: string;
  /** Where those stand that are no longer there. */
  from?: string;
}) {
  if (entered.length + left.length + changed.length === 0) return <p class="muted">The same candidates are in, and for the same reasons.</p>;
  return (
    <div class="sides">
      <List title="Left" sign="−" tone="left" changes={left} context={from} />
      <List title="Entered" sign="+" tone="entered" changes={entered} context={context} />
      {changed.length > 0 && <List title="For another reason" sign="~" tone="changed" changes={changed} context={context} />}
    </div>
  );
}

function List({ title, sign, tone, changes, context }: { title: string; sign: string; tone: string; changes: Change[]; context: string }) {
  const tokens = changes.reduce((sum, each) => sum + each.tokens, 0);
  return (
    <section class={`changes ${tone}`} aria-label={title}>
      <h3><span aria-hidden="true">{sign}</span> {title}: {plural(changes.length, "candidate")}{changes.length > 0 && `, ${plural(tokens, "token")}`}</h3>
      <ul>
        {changes.slice(0, MOST).map((each) => (
          <li key={each.id}>
            <a href={itemPath(context, each.id)}>
              <span class={`swatch ${look(componentOf(each.kind))}`} aria-hidden="true" />
              <span class="change-text">{each.excerpt || each.id}</span>
            </a>
            <span class="small muted">
              <Fate outcome={each.before} reason={each.before_reason} /> → <Fate outcome={each.after} reason={each.after_reason} /> · {plural(each.tokens, "token")}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > MOST && <p class="small muted">and {whole(changes.length - MOST)} more</p>}
    </section>
  );
}

function Fate({ outcome, reason }: { outcome: Outcome | null; reason: string | null }) {
  return outcome === null ? <>no candidate</> : <><OutcomeBadge outcome={outcome} /> {reason}</>;
}

const COMPONENTS: Record<string, string> = {
  "system-prompt": "system", "system-note": "notes", "memory-episodic": "memories", "memory-semantic": "memories", "memory-procedural": "memories",
  "message-recent": "recent", "message-older": "older", "message-current": "current", "media-image": "media",
  "media-audio": "media", "media-video": "media", "tool-call": "tools", "tool-result": "tools", summary: "summaries",
};

const componentOf = (kind: string): string => COMPONENTS[kind] ?? kind;
