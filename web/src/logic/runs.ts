/** The steps of an agent's run: what each did, where its time went, and which to show. */

import type { Step, StepCall, StepTimes } from "../api/runs";

export type Choice = "all" | "warnings" | "cut" | "recalls" | "unanswered";

const CHOICES: Record<Choice, [title: string, is: (step: Step) => boolean]> = {
  all: ["All", () => true],
  warnings: ["With warnings", (step) => notesOf(step).length > 0],
  cut: ["With something cut", (step) => step.left_out > 0],
  recalls: ["With recalls", (step) => step.recalls > 0],
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

export function chosen(steps: readonly Step[], choice: string): Step[] {
  return steps.filter((CHOICES[choice as Choice] ?? CHOICES.all)[1]);
}

/** What the model did: the tools that it called, the beginning of its answer, or how the answer ended. */
export function stepText(step: Step): string {
  if (step.calls.length > 0) return callNames(step.calls);
  if (step.answer) return step.answer;
  if (step.finish === "") return "No answer yet";
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

export const PARTS: Record<Part, string> = { retrieval: "Retrieval", build: "Build", model: "Model", tools: "Tools" };

/** The known parts of a step's time, in order. */
export function timesOf(times: StepTimes): [Part, number][] {
  return (Object.keys(PARTS) as Part[]).flatMap((part) => (times[part] === null ? [] : [[part, times[part]] as [Part, number]]));
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
