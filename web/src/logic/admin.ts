/** Keys and limits in words. */

import type { ApiKey, Limits, LimitList, LimitsInUse } from "../api/admin";
import { money, whole } from "./format";

/** Whether a key works now: "active", "revoked" or "expired". */
export function keyState(key: ApiKey, now: number): "active" | "revoked" | "expired" {
  if (key.revoked !== null) return "revoked";
  return key.expires !== null && key.expires <= now ? "expired" : "active";
}

/** What a key may do besides its scopes: "for ada; models gpt-4o*; policies fit". */
export function keyBounds(key: ApiKey): string {
  const bounds = [
    ...(key.user === null ? [] : [`for ${key.user}`]),
    ...(key.models === null ? [] : [`models ${key.models.join(", ")}`]),
    ...(key.policies === null ? [] : [`policies ${key.policies.join(", ")}`]),
  ];
  return bounds.join("; ") || "none";
}

export interface LimitRow {
  who: string;
  /** "tokens per day" */
  limit: string;
  most: string;
  used: string;
  /** The used share; null if nothing is limited or known. */
  share: number | null;
}

/** A row for each limit that was set for a single key or user. */
export function limitRows({ limits }: LimitList): LimitRow[] {
  return limits.flatMap((each) => Object.entries(each.limits).map(([name, most]) => limitRow(each, name, most)));
}

function limitRow(of: LimitsInUse, name: string, most: number | null): LimitRow {
  const [unit = "", period = ""] = name.split("_per_");
  const used = of.used[period]?.[unit as "requests" | "tokens" | "dollars"];
  return {
    who: `${of.kind} ${of.name || "(removed)"}`,
    limit: limitTitle(name),
    most: most === null ? "no limit" : amount(unit, most),
    used: used === undefined ? "–" : amount(unit, used),
    share: most === null || used === undefined ? null : used / Math.max(most, Number.EPSILON),
  };
}

/** The limits of all others, in words; empty if there are none. */
export function defaultLimits(limits: Limits): string {
  const set = Object.entries(limits).filter((each): each is [string, number] => each[1] !== null);
  return set.map(([name, most]) => {
    const [unit = "", period = ""] = name.split("_per_");
    return `${amount(unit, most)}${unit === "dollars" ? "" : ` ${unit}`} per ${period}`;
  }).join(", ");
}

function limitTitle(name: string): string {
  return name.replaceAll("_", " ");
}

function amount(unit: string, value: number): string {
  return unit === "dollars" ? money(value) : whole(value);
}
