/** What a list says of the run of an agent, and of the candidates of a context. */

import type { RunView } from "../api/types";
import { money, percent, plural, seconds, short, whole } from "./format";

/** The sums of a run: "47 steps · 1.2M tokens in, 92 % cached, 12k out · $1.20 · 4 min 3 s" */
export function runFacts(run: RunView): string[] {
  return [
    plural(run.steps, "step"),
    ...(run.prompt > 0 ? [`${short(run.prompt)} tokens in${run.cached > 0 ? `, ${percent(run.cached / run.prompt)} cached` : ""}, ${short(run.completion)} out`] : []),
    ...(run.cost === null ? [] : [money(run.cost)]),
    seconds(run.end - run.begin),
    run.models.join(", "),
  ];
}

/** The newer one of two states of a run. */
export function newerRun(one: RunView | null, other: RunView | null | undefined): RunView | null {
  return other && (one === null || other.end > one.end || (other.end === one.end && other.steps >= one.steps)) ? other : one;
}

/** How many candidates are included, and how many others are lines: "17 of 95 candidates included, 78 as one line each" */
export function includedText({ candidates, left_out, lines }: { candidates: number; left_out: number; lines: number }): string {
  return [`${whole(candidates - left_out)} of ${plural(candidates, "candidate")} included`, ...(lines > 0 ? [`${whole(lines)} as one line each`] : [])].join(", ");
}
