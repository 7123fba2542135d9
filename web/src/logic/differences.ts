/** Changes between two contexts, grouped by kind. */

import type { Change } from "../api/types";

export type ChangeOrder = "tokens" | "relevance";

/** The changes of one component of the window. */
export interface ChangeGroup {
  component: string;
  tokens: number;
  changes: Change[];
  /** Whether it is a large part of all changes. */
  isLarge: boolean;
}

const LARGE = 0.1; // of the tokens of all changes

/** Group changes by component, the first in this order first. `all` are the tokens of all changes between the contexts. */
export function groupChanges(changes: readonly Change[], order: ChangeOrder, all: number, componentOf: (change: Change) => string): ChangeGroup[] {
  const groups = new Map<string, Change[]>();
  for (const each of [...changes].sort((a, b) => key(b, order) - key(a, order) || b.tokens - a.tokens)) {
    const component = componentOf(each);
    groups.set(component, [...(groups.get(component) ?? []), each]);
  }
  const found = [...groups].map(([component, inside]) => {
    const tokens = sumTokens(inside);
    return { component, tokens, changes: inside, isLarge: tokens >= LARGE * all };
  });
  return order === "tokens" ? found.sort((a, b) => b.tokens - a.tokens) : found; // which are in the order of their first change
}

export function sumTokens(changes: readonly Change[]): number {
  return changes.reduce((sum, each) => sum + each.tokens, 0);
}

function key({ tokens, relevance }: Change, order: ChangeOrder): number {
  return order === "tokens" ? tokens : (relevance ?? -1);
}

const COMPONENTS: Record<string, string> = {
  "system-prompt": "system", "system-note": "notes", "memory-episodic": "memories", "memory-semantic": "memories", "memory-procedural": "memories",
  "message-recent": "recent", "message-older": "older", "message-current": "current", "media-image": "media",
  "media-audio": "media", "media-video": "media", "tool-call": "tools", "tool-result": "tools", summary: "summaries",
};

/** The component of a kind; a kind that is not known is one itself. */
export const componentOfKind = (kind: string): string => COMPONENTS[kind] ?? kind;
