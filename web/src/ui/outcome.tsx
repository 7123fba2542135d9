/** The outcome of a candidate, as symbol, word and color, and its form. */

import type { Decision, Form, Outcome } from "../api/types";
import { included, isLine } from "../logic/candidates";
import { formText, percent, whole } from "../logic/format";

const OUTCOMES: Record<Outcome, string> = {
  kept: "the model saw it", shrunk: "the model saw part of it", replaced: "the model saw a summary of it", duplicate: "the model saw the same text", dropped: "left out",
};

/** What became of an item in words; the table has the exact terms. */
export function outcomeText(decision: { outcome: Outcome; reason: string }): string {
  return isLine(decision) ? "the model saw one line of it" : OUTCOMES[decision.outcome];
}

const SYMBOLS: Record<Outcome, string> = { kept: "●", shrunk: "◐", replaced: "⇄", duplicate: "≡", dropped: "○" };

export function OutcomeBadge({ outcome }: { outcome: Outcome }) {
  return (
    <span class={`outcome o-${outcome}`}>
      <span aria-hidden="true">{SYMBOLS[outcome]}</span> {outcome}
    </span>
  );
}

const FORMS: Record<Form, string> = {
  full: "full text", bare: "without reasoning", excerpt: "excerpt", digest: "digest", low: "low detail", stub: "stub",
};

/** How much of an item the model saw, if not all of it: "digest, 5 % of 8,005 tokens". */
export function FormMark({ decision, brief = false }: { decision: Decision; brief?: boolean }) {
  const { form, tokens, size } = decision;
  if (form === "full" || !included(decision)) return null;
  return <span class={`tag form-${form}`} title={formText(decision)}>{FORMS[form]}{brief ? "" : `, ${percent(tokens / Math.max(1, size))} of ${whole(size)} tokens`}</span>;
}
