/** The steps of an agent's run: what each did, where its time went, and which to show. */

import type { RunDetail, Step, StepCall, StepTimes } from "../api/runs";

export type Choice = "all" | "warnings" | "cut" | "recalls" | "rated" | "unanswered";

const CHOICES: Record<Choice, [title: string, is: (step: Step) => boolean]> = {
  all: ["All", () => true],
  warnings: ["With warnings", (step) => notesOf(step).length > 0],
  cut: ["With something cut", (step) => step.left_out > 0],
  recalls: ["With recalls", (step) => step.recalls.length > 0],
  rated: ["With feedback", (step) => step.feedback !== null],
  unanswered: ["Without an answer", (step) => step.finish === "" || step.finish === "broken-off"],
};

/** What was unusual about a step. What degraded it is also among the warnings. */
export function notesOf(step: Step): string[] {
  return [...new Set([...step.degraded, ...step.warnings].map((note) => note.text))];
}

/** The choices that have steps, with their titles and numbers. */
export function choices(steps: readonly Step[]): [Choice, string, number][] {
  const every = Object.entries(CHOICES) as [Choice, (typeof CHOICES)[Choice]][];
  return every.map(([name, [title, is]]): [Choice, string, number] => [name, title, steps.filter(is).length]).filter(([name, , count]) => name === "all" || count > 0);
}

/** The steps of a choice in which all words of a text occur: in calls of tools, the answer, recalls, or notes. */
export function chosen(steps: readonly Step[], choice: string, text = ""): Step[] {
  const words = text.toLowerCase().split(/\s+/);
  return steps.filter((CHOICES[choice as Choice] ?? CHOICES.all)[1]).filter((step) => {
    if (!text) return true;
    const content = [stepText(step), step.answer, ...step.calls.flatMap((call) => [call.name, call.arguments]), ...step.recalls.map((each) => `${each.handle} ${each.query}`), ...notesOf(step), step.feedback?.note ?? ""].join("\n").toLowerCase();
    return words.every((word) => content.includes(word));
  });
}

/** The time from which steps have to be loaded again after an event about a context: a step shows its calls when the next one has come. */
export function changedSince(steps: readonly Step[], context?: string): number {
  const index = steps.findIndex((step) => step.id === context);
  return steps[Math.max(0, (index < 0 ? steps.length - 1 : index) - 1)]?.at ?? 0;
}

/** A run with the newer states of its last steps, and those that are new. */
export function mergeSteps(run: RunDetail, news: RunDetail): RunDetail {
  const newer = new Map(news.steps.map((step) => [step.id, step]));
  const ids = new Set(run.steps.map((step) => step.id));
  return { ...run, run: news.run, steps: [...run.steps.map((step) => newer.get(step.id) ?? step), ...news.steps.filter((step) => !ids.has(step.id))] };
}

/** Steps in pages of so many. */
export function pagesOf(steps: readonly Step[], size: number): Step[][] {
  return Array.from({ length: Math.ceil(steps.length / size) }, (_, page) => steps.slice(page * size, (page + 1) * size));
}

/** What the model did: the tools that it called, the beginning of its answer, or how the answer ended. */
export function stepText(step: Step): string {
  if (step.calls.length > 0) return callNames(step.calls);
  if (step.answer) return step.answer;
  if (step.finish === "") return "No answer yet";
  if (step.finish === "tool-calls") return "Called tools";
  return step.finish === "stop" ? "Answered" : `Ended: ${step.finish.replaceAll("-", " ")}`;
}

/** Names of tools with how often each was called: "Bash ×2, Read" */
export function callNames(calls: readonly StepCall[]): string {
  const counts = new Map<string, number>();
  for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ");
}

/** The first value of a call's arguments, or all of them: '{"command": "ls"}' → "ls" */
export function callText({ arguments: text }: StepCall): string {
  try {
    const [first] = Object.values(JSON.parse(text) as object);
    return typeof first === "string" ? first : text;
  } catch {
    return text; // it was shortened
  }
}

export type Part = keyof StepTimes;

export const PARTS: Record<Part, string> = { retrieval: "Retrieval", build: "Build", model: "Model", tools: "Tools", recall: "Recall" };

/** The known parts of a step's time, in order. */
export function timesOf(times: StepTimes): [Part, number][] {
  return (Object.keys(PARTS) as Part[]).flatMap((part) => (times[part] === null ? [] : [[part, times[part]] as [Part, number]]));
}

/** The parts of a step, with the seconds of each, null if they are not known. */
export function partsOf(step: Step): [Part, number | null][] {
  const { retrieval, tools } = step.seconds;
  const recalled = step.recalls.length > 0;
  const has: Record<Part, boolean> = { retrieval: retrieval !== null, build: true, model: true, tools: !recalled && (tools !== null || step.calls.length > 0), recall: recalled };
  return (Object.keys(PARTS) as Part[]).filter((part) => has[part]).map((part) => [part, step.seconds[part]]);
}

export const totalTime = (times: StepTimes): number => timesOf(times).reduce((sum, [, value]) => sum + value, 0);

/** Add up the times of steps, by part. */
export function sumTimes(steps: readonly Step[]): [Part, number][] {
  return (Object.keys(PARTS) as Part[]).flatMap((part): [Part, number][] => {
    const known = steps.flatMap((step) => step.seconds[part] ?? []);
    return known.length > 0 ? [[part, known.reduce((sum, value) => sum + value, 0)]] : [];
  });
}

/** The tokens of a step's prompt: as reported, or else as counted. */
export const promptOf = (step: Step): number => step.prompt ?? step.tokens;

/** An outline of bars, one for each value, in a box as wide as there are values and 100 high. */
export function bars(values: readonly (number | null)[], largest: number): string {
  return values.flatMap((value, at) => (value ? [`M${at} 100V${round(100 - (100 * value) / largest)}h1V100z`] : [])).join("");
}

const round = (value: number): number => Math.round(value * 10) / 10;
