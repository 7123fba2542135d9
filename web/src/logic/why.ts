/** Why a candidate was left out or included, in sentences with the numbers that decided it. */

import type { Absence, ContextView, Decision, Remedy } from "../api/types";
import { included, placeOf } from "./candidates";
import { isUnlikely, plural, relevanceText, score, whole } from "./format";

type View = Pick<ContextView, "decisions" | "pools" | "price" | "tokens" | "available">;

export function explain(decision: Decision, view: View, remedies: readonly Remedy[] = []): string {
  const special = included(decision) ? undefined : REASONS[decision.reason]?.(decision, view, remedies);
  return special ?? headline(decision.why);
}

/** Why it was a candidate, if search or a keyword found it. */
export function origin(decision: Decision): string {
  const text = decision.why.split("; candidate because ")[1] ?? "";
  return text.replace(/^found by retrieval/, "search found it").replace(/relevance (?:under |over )?\d+ %/, relevanceText(decision.score?.relevance ?? 0));
}

/** Why something was not a candidate. The relevance of what search offered instead is in words if it is low. */
export function absenceText({ why }: Absence): string {
  return why.replace("relevance under 1 %", relevanceText(0)).replace(" to under 1 %", " and less");
}

/** Why free tokens of the window did not help something that was not a candidate. */
export function unusedTokens({ kind, reason, relevance }: Absence, { remaining, decisions }: Pick<ContextView, "remaining" | "decisions">): string {
  if (reason !== "not-found" || remaining === 0) return "";
  const isHopeless = relevance === null || decisions.some((each) => ["not-worth", "unlikely"].includes(each.reason) && each.kind.startsWith("memory-"));
  return `${plural(remaining, "token")} of the window stayed free, but only candidates can use them.${kind.startsWith("memory-") && isHopeless ? " A larger window would not make it one." : ""}`;
}

const REASONS: Record<string, (decision: Decision, view: View, remedies: readonly Remedy[]) => string | undefined> = {
  "not-worth": (decision, view, remedies) => {
    const cost = remedies.find((each) => each.change === "price")?.tokens;
    const value = decision.score?.total ?? 0;
    if (cost === undefined || value === 0) return undefined;
    return `It is not worth its tokens. It would take ${plural(cost, "token")}, which have to be worth a score of at least ${score(cost * view.price / 1000)} at the price of this policy (${view.price} per 1,000 tokens). Its score is ${score(value)}.`;
  },
  unlikely: (decision, { decisions }) => {
    const value = decision.score?.relevance ?? 0;
    const text = relevanceText(value, placeOf(decision, decisions));
    return `It is ${isUnlikely(value) ? text : `unlikely to help (${text})`}. Such results distract more often than they help.`;
  },
  older: (decision) =>
    `History is included without gaps, from the newest message back. The newest ${whole(decision.cut)} got in; this one is number ${whole(decision.rank)}.`,
  "low-water": (decision, view) =>
    `History was trimmed in one large step${used(decision, view)}, so that the next requests begin like this one and can be read from the provider's cache. The newest ${whole(decision.cut)} messages stayed; this one is number ${whole(decision.rank)}.`,
  "pool-full": (decision, view) => `Its pool '${decision.pool}' was full${used(decision, view)}. ${rivals(decision, view)}`,
  "window-full": (decision, view) => `The window was full (${whole(view.tokens)} of ${whole(view.available)} tokens). ${rivals(decision, view)}`,
  "too-large": (decision, view) => {
    const pool = view.pools.find((each) => each.name === decision.pool);
    return pool && `It has ${plural(decision.tokens, "token")}, but its pool '${pool.name}' holds at most ${whole(pool.max_tokens)}.`;
  },
};

/** How full the pool of a candidate is: " (1,443 of 1,500 tokens)". */
function used(decision: Decision, view: View): string {
  const pool = view.pools.find((each) => each.name === decision.pool);
  return pool ? ` (${whole(pool.used)} of ${whole(pool.limit)} tokens)` : "";
}

/** What took the tokens instead, and by how much it was better. */
function rivals(decision: Decision, view: View): string {
  const value = (each: Decision) => each.score?.total ?? 0;
  const own = value(decision);
  const rest = view.decisions.filter((each) => included(each) && each.pool === decision.pool && each.score !== null);
  const better = rest.filter((each) => value(each) > own);
  const others = rest.filter((each) => value(each) <= own);
  if (rest.length === 0) return "";
  if (others.length === 0) return `Everything that got in scores higher: ${score(Math.min(...rest.map(value)))} or more. This one has a score of ${score(own)}.`;
  const longest = Math.max(...others.map((each) => each.cost));
  const shorter = longest < decision.tokens ? ` The others are shorter: ${plural(longest, "token")} at most, and this one has ${whole(decision.tokens)}.` : "";
  const ahead = better.length === 0 ? "Nothing that got in scores" : `${whole(better.length)} of the ${plural(rest.length, "item")} that got in score${better.length === 1 ? "s" : ""}`;
  return `${ahead} higher than this one (${score(own)}).${shorter}`;
}

/** The first part of the server's line, as a sentence: "dropped: trimmed from …, score 0.2" → "Trimmed from …." */
function headline(why: string): string {
  const text = why.slice(why.indexOf(": ") + 2).split(/, score |; candidate because /)[0] ?? "";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
