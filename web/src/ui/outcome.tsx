/** What became of a candidate: a sign, a word and a colour, so that none of them is needed alone. */

import type { Outcome } from "../api/types";

const SIGNS: Record<Outcome, string> = { kept: "●", shrunk: "◐", replaced: "⇄", duplicate: "≡", dropped: "○" };

export function OutcomeBadge({ outcome }: { outcome: Outcome }) {
  return (
    <span class={`outcome o-${outcome}`}>
      <span aria-hidden="true">{SIGNS[outcome]}</span> {outcome}
    </span>
  );
}
