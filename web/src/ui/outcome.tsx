/** The outcome of a candidate, as symbol, word and color. */

import type { Outcome } from "../api/types";

const SYMBOLS: Record<Outcome, string> = { kept: "●", shrunk: "◐", replaced: "⇄", duplicate: "≡", dropped: "○" };

export function OutcomeBadge({ outcome }: { outcome: Outcome }) {
  return (
    <span class={`outcome o-${outcome}`}>
      <span aria-hidden="true">{SYMBOLS[outcome]}</span> {outcome}
    </span>
  );
}
