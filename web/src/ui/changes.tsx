/** Candidates that were added, removed, or changed their reason, grouped by kind. */

import { useState } from "preact/hooks";

import type { Change, Decision, Form, Outcome } from "../api/types";
import { look, title } from "../logic/components";
import { type ChangeGroup, type ChangeOrder, componentOfKind, groupChanges, sumTokens } from "../logic/differences";
import { plural, reasonText, relevanceText, whole } from "../logic/format";
import { itemPath } from "../logic/routes";
import { Explain } from "./help";
import { OutcomeBadge } from "./outcome";

const FEW = 8; // changes that need no folding
const FIRST = 5; // changes of a kind, until all are shown
const LIMIT = 200;

export function Changes({ entered, left, changed, context, from = context, decisions = [], order = "tokens" }: {
  entered: Change[];
  left: Change[];
  changed: Change[];
  context: string;
  /** The context of the removed candidates. */
  from?: string;
  /** The candidates after the change, if known: whether one is pinned decides its color. */
  decisions?: readonly Decision[];
  order?: ChangeOrder;
}) {
  if (entered.length + left.length + changed.length === 0) return <p class="muted">The same candidates are included, for the same reasons.</p>;
  const parts = new Map(decisions.map((each) => [each.id, each.component]));
  const all = sumTokens([...entered, ...left, ...changed]);
  const groups = (changes: Change[]) => groupChanges(changes, order, all, (each) => parts.get(each.id) ?? componentOfKind(each.kind));
  return (
    <div class="sides">
      <List title="Removed" sign="−" tone="left" changes={left} groups={groups(left)} context={from} />
      <List title="Added" sign="+" tone="entered" changes={entered} groups={groups(entered)} context={context} />
      {changed.length > 0 && <List title="Different reason or form" sign="~" tone="changed" changes={changed} groups={groups(changed)} context={context} />}
    </div>
  );
}

function List({ title: name, sign, tone, changes, groups, context }: {
  title: string;
  sign: string;
  tone: string;
  changes: Change[];
  groups: ChangeGroup[];
  context: string;
}) {
  return (
    <section class={`changes ${tone}`} aria-label={name}>
      <h2><span aria-hidden="true">{sign}</span> {name}: {plural(changes.length, "candidate")}{changes.length > 0 && `, ${plural(sumTokens(changes), "token")}`} {tone === "changed" && <Explain term="Form" />}</h2>
      {groups.map((group) => <Group key={group.component} group={group} isOpen={changes.length <= FEW || (tone !== "changed" && group.isLarge)} context={context} />)}
    </section>
  );
}

function Group({ group: { component, tokens, changes }, isOpen, context }: { group: ChangeGroup; isOpen: boolean; context: string }) {
  const [all, setAll] = useState(false);
  const listed = changes.slice(0, all ? LIMIT : FIRST);
  const rest = changes.length - listed.length;
  return (
    <details open={isOpen}>
      <summary><span class={`swatch ${look(component)}`} aria-hidden="true" /> {title(component)}: {whole(changes.length)} <span class="num muted">· {plural(tokens, "token")}</span></summary>
      <ul>
        {listed.map((each) => (
          <li key={each.id}>
            <a href={itemPath(context, each.id)}><span class="change-text">{each.excerpt || each.id}</span></a>
            <span class="small muted">
              <Result outcome={each.before} reason={each.before_reason} form={each.before_form} /> → <Result outcome={each.after} reason={each.after_reason} form={each.after_form} /> · {plural(each.tokens, "token")}{each.relevance !== null && ` · ${relevanceText(each.relevance)}`}
            </span>
          </li>
        ))}
      </ul>
      {rest > 0 && (all ? <p class="small muted">and {whole(rest)} more</p> : <button type="button" class="quiet" onClick={() => setAll(true)}>Show {whole(rest)} more</button>)}
    </details>
  );
}

function Result({ outcome, reason, form }: { outcome: Outcome | null; reason: string | null; form: Form | null }) {
  if (outcome === null) return <>not a candidate</>;
  return <><OutcomeBadge outcome={outcome} /> {reason && reasonText(reason)}{form !== null && form !== "full" && ` (${form})`}</>;
}
