/** Many messages grouped by the day on which they were sent. */

import type { Decision } from "../api/types";
import { dayName } from "./format";

const FEW = 30; // items that need no groups

/** The items of one day. */
export interface Day {
  name: string;
  tokens: number;
  items: Decision[];
}

/** Group many items by day, in their order. A single item of a day, and one without a time, stays as it is, as do few items. */
export function byDay(items: readonly Decision[]): (Decision | Day)[] {
  if (items.length <= FEW) return [...items];
  const days = new Map<string, Decision[]>();
  for (const [index, each] of items.entries()) {
    const name = dayName(each.at) || `item ${index}`;
    days.set(name, [...(days.get(name) ?? []), each]);
  }
  if (days.size < 2) return [...items];
  return [...days].flatMap(([name, inside]): (Decision | Day)[] => (
    inside.length < 2 ? inside : [{ name, items: inside, tokens: inside.reduce((sum, each) => sum + each.cost, 0) }]
  ));
}

export function isDay(entry: Decision | Day): entry is Day {
  return "items" in entry;
}
