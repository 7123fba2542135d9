/** Candidates that were added, removed, or changed their reason. */

import type { Change, Decision, Form, Outcome } from "../api/types";
import { look } from "../logic/components";
import { plural, reasonText, whole } from "../logic/format";
import { itemPath } from "../logic/routes";
import { OutcomeBadge } from "./outcome";

const LIMIT = 200;

export function Changes({ entered, left, changed, context, from = context, decisions = [] }: {
  entered: Change[];
  left: Change[];
  changed: Change[];
  context: string;
  /** The context of the removed candidates. */
  from?: string;
  /** The candidates after the change, if known: whether one is pinned decides its color. */
  decisions?: readonly Decision[];
}) {
  if (entered.length + left.length + changed.length === 0) return <p class="muted">The same candidates are included, for the same reasons.</p>;
  const parts = new Map(decisions.map((each) => [each.id, each.component]));
  return (
    <div class="sides">
      <List title="Removed" sign="−" tone="left" changes={left} context={from} parts={parts} />
      <List title="Added" sign="+" tone="entered" changes={entered} context={context} parts={parts} />
      {changed.length > 0 && <List title="Different reason or form" sign="~" tone="changed" changes={changed} context={context} parts={parts} />}
    </div>
  );
}

function List({ title, sign, tone, changes, context, parts }: {
  title: string;
  sign: string;
  tone: string;
  changes: Change[];
  context: string;
  parts: ReadonlyMap<string, string>;
}) {
  const tokens = changes.reduce((sum, each) => sum + each.tokens, 0);
  return (
    <section class={`changes ${tone}`} aria-label={title}>
      <h2><span aria-hidden="true">{sign}</span> {title}: {plural(changes.length, "candidate")}{changes.length > 0 && `, ${plural(tokens, "token")}`}</h2>
      <ul>
        {changes.slice(0, LIMIT).map((each) => (
          <li key={each.id}>
            <a href={itemPath(context, each.id)}>
              <span class={`swatch ${look(parts.get(each.id) ?? componentOf(each.kind))}`} aria-hidden="true" />
              <span class="change-text">{each.excerpt || each.id}</span>
            </a>
            <span class="small muted">
              <Result outcome={each.before} reason={each.before_reason} form={each.before_form} /> → <Result outcome={each.after} reason={each.after_reason} form={each.after_form} /> · {plural(each.tokens, "token")}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > LIMIT && <p class="small muted">and {whole(changes.length - LIMIT)} more</p>}
    </section>
  );
}

function Result({ outcome, reason, form }: { outcome: Outcome | null; reason: string | null; form: Form | null }) {
  if (outcome === null) return <>not a candidate</>;
  return <><OutcomeBadge outcome={outcome} /> {reason && reasonText(reason)}{form !== null && form !== "full" && ` (${form})`}</>;
}

const COMPONENTS: Record<string, string> = {
  "system-prompt": "system", "system-note": "notes", "memory-episodic": "memories", "memory-semantic": "memories", "memory-procedural": "memories",
  "message-recent": "recent", "message-older": "older", "message-current": "current", "media-image": "media",
  "media-audio": "media", "media-video": "media", "tool-call": "tools", "tool-result": "tools", summary: "summaries",
};

const componentOf = (kind: string): string => COMPONENTS[kind] ?? kind;
