/** What the page says about a memory: where it comes from, its state, its use, and the day to which a list refers. */

import type { Finding, FindingKind, Memory } from "../api/records";
import { formatTime, plural } from "./format";
import { PROGRAMS } from "./sessions";

/** States that the list can be limited to: value, label, and the query of the API. */
export const STATES: readonly [string, string, Record<string, string>][] = [
  ["", "current", {}],
  ["proposed", "proposed", { state: "proposed" }],
  ["rejected", "rejected", { state: "rejected" }],
  ["archived", "replaced or archived", { archived: "true" }],
];

/** The state of a memory in one word; empty if there is nothing to say: it is simply true. */
export function stateOf(memory: Pick<Memory, "archived" | "archival" | "state">): string {
  if (memory.archived) return memory.archival?.replaced_by ? "replaced" : "archived";
  return memory.state === "active" ? "" : memory.state;
}

/** When a memory stopped being true; null if it is true now, or if nobody knows. */
export function endOf({ ended, archival }: Pick<Memory, "ended" | "archival">): number | null {
  return ended ?? archival?.at ?? null;
}

/** Where a memory comes from: "from a message", "from a session of Codex", "imported from claude", "by a tool (mcp)". */
export function originText({ origin, program, source_removed }: Pick<Memory, "origin" | "program" | "source_removed">): string {
  switch (origin) {
    case "message":
      return `from a message${source_removed ? " that is gone" : ""}${program && `, ${program}`}`;
    case "session":
      return `from a session of ${PROGRAMS[program] ?? program}`;
    case "import":
      return `imported from ${program}`;
    case "tool":
      return `by a tool (${program})`;
    case "other":
      return `from ${program}`;
    case "direct":
      return "added directly";
  }
}

/** How often and when it was last in a context: "in 3 contexts, last 19 Nov 2026, 04:12:33" */
export function useText({ accesses, accessed }: Pick<Memory, "accesses" | "accessed">): string {
  if (accesses === 0) return "in no context so far";
  return `in ${plural(accesses, "context")}${accessed ? `, last ${formatTime(accessed)}` : ""}`;
}

/** The last moment of a local day in Unix time; empty if it is no date. */
export function endOfDay(date: string): string {
  const [year = 0, month = 1, day = 0] = date.split("-").map(Number);
  const next = new Date(year, month - 1, day + 1).getTime();
  return /^\d{4,6}-\d\d-\d\d$/.test(date) && Number.isFinite(next) ? String((next - 1) / 1000) : "";
}

/** Kinds of findings in the order of the page: title, what it means, and whether they are chosen at first. */
export const KINDS: Record<FindingKind, { title: string; text: string; chosen: boolean }> = {
  duplicate: { title: "Duplicates", text: "The same text twice.", chosen: true },
  "near-duplicate": { title: "Near-duplicates", text: "The same words and numbers in the same order.", chosen: true },
  contradicted: { title: "Contradictions", text: "A newer memory says something else about the same. Both may be true: you decide.", chosen: false },
  junk: { title: "Junk", text: "Not a fact, such as a line of a log, a template or small talk.", chosen: true },
  unused: { title: "Never used", text: "Old, and in no context so far.", chosen: false },
};

/** The memory to archive of each finding, by the id of the finding. A memory is chosen for one finding at most. */
export type Choices = Record<string, string>;

export function firstChoices(findings: readonly Finding[]): Choices {
  return Object.fromEntries(findings.filter((each) => KINDS[each.kind].chosen).map((each) => [each.id, each.id]));
}

/** Choose a memory of a finding, which gives the other one up, or with the chosen one, none. */
export function choose(choices: Choices, finding: string, memory: string): Choices {
  const { [finding]: before, ...others } = choices;
  return before === memory ? others : { ...others, [finding]: memory };
}

/** Choose all findings of a kind, or none. */
export function chooseAll(choices: Choices, findings: readonly Finding[], all: boolean): Choices {
  const ids = new Set(findings.map((each) => each.id));
  const others = Object.entries(choices).filter(([id]) => !ids.has(id));
  return Object.fromEntries([...others, ...(all ? findings.map((each) => [each.id, each.id]) : [])]);
}

/** The ids of the chosen memories, each once. */
export function chosenIds(choices: Choices): string[] {
  return [...new Set(Object.values(choices))];
}
