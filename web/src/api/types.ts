/** Types of the server's JSON, as described in its OpenAPI document. */

import type { Endpoint } from "../logic/snippets";

export type Form = "full" | "bare" | "excerpt" | "digest" | "low" | "stub";

export type Outcome = "kept" | "shrunk" | "replaced" | "duplicate" | "dropped";

/** Something worth knowing about a context: what kind of thing, the facts, and a text for people. */
export interface Notice {
  kind: string;
  text: string;
  facts: Record<string, unknown>;
}

export interface Component {
  name: string;
  tokens: number;
  items: number;
}

/** The contexts that were built for one task, and what their answers used. */
export interface RunView {
  id: string;
  steps: number;
  begin: number;
  end: number;
  models: string[];
  prompt: number;
  cached: number;
  completion: number;
  cost: number | null;
  warnings: number;
  degraded: number;
}

/** The place of a context in its run. */
export interface RunPlace {
  id: string;
  step: number;
  steps: number;
  previous: string | null;
  next: string | null;
}

export interface ContextRow {
  number: number;
  message: string | null;
  id: string;
  room: string;
  room_name: string;
  persona: string | null;
  persona_name: string;
  user: string | null;
  at: number;
  model: string;
  policy: string;
  tokens: number;
  window: number;
  completion: number;
  available: number;
  components: Component[];
  candidates: number;
  left_out: number;
  /** Of those left out, how many are a line in the ledger of an agent's steps. */
  lines: number;
  run: RunView | null;
  warnings: Notice[];
  degraded: Notice[];
  /** The beginnings of the message and its answer; empty if they are not stored. */
  question: string;
  answer: string;
  /** Prompt tokens that the provider took from its cache, or could have taken; null if it reported no usage. */
  prompt: number | null;
  cached: number | null;
  expected_cached: number | null;
  /** US dollars and seconds of the answer; null if they are not known. */
  cost: number | null;
  seconds: number | null;
  feedback: Feedback | null;
  /** Whether there is more than this summary. */
  recorded: boolean;
}

export interface ContextList {
  contexts: ContextRow[];
  next: number | null;
}

export interface Hit {
  kind: "context" | "message" | "memory" | "lore" | "room" | "persona";
  id: string;
  title: string;
  excerpt: string;
  /** The room of a message, or the lorebook of an entry. */
  parent: string;
  at: number;
}

export interface SearchResult {
  hits: Hit[];
  partial: boolean;
}

export type Rating = "good" | "bad";

/** What somebody thinks of an answer. */
export interface Feedback {
  rating: Rating;
  note: string;
  at: number;
}

export interface Usage {
  prompt: number;
  cached: number;
  completion: number;
  reasoning: number;
}

export interface Answer {
  id: string;
  context: string;
  room: string;
  at: number;
  model: string;
  route: string;
  /** The name of the proxy's upstream; empty for other answers. */
  upstream: string;
  finish: string;
  seconds: number | null;
  usage: Usage | null;
  expected_cached: number;
  notices: Notice[];
  cost: number | null;
  message: string | null;
  feedback: Feedback | null;
  text: string;
}

/** An answer that just arrived. */
export interface AnswerEvent extends Answer {
  run: RunView | null;
}

export interface Band {
  name: string;
  title: string;
  tokens: number;
  items: number;
}

/** Tokens and items of one kind of content in a request. */
export interface KindUse {
  name: string;
  tokens: number;
  items: number;
}

export interface PoolUse {
  name: string;
  limit: number;
  max_tokens: number;
  used: number;
  items: number;
  borrowed: number;
}

export interface Score {
  total: number;
  priority: number;
  importance: number;
  relevance: number;
  recency: number;
}

export interface Decision {
  id: string;
  kind: string;
  component: string;
  outcome: Outcome;
  reason: string;
  tokens: number;
  cost: number;
  pool: string;
  score: Score | null;
  rank: number;
  cut: number;
  by: string;
  group: string;
  why: string;
  excerpt: string;
  at: number;
  position: number | null;
  form: Form;
  larger: number;
  smaller: number;
  size: number;
}

/** A message of the request as sent, with the ids of the candidates in it. */
export interface RequestMessage {
  role: string;
  name: string;
  text: string;
  tokens: number;
  items: string[];
}

/** Candidates that are not in the request, before the message where they would have been. */
export interface Omission {
  index: number;
  component: string;
  /** The id of the summary that is there instead, or empty. */
  summary: string;
  /** More than there are items if messages were not even loaded. */
  count: number;
  tokens: number;
  items: string[];
}

export interface RequestMessages {
  messages: RequestMessage[];
  omissions: Omission[];
  other_tokens: number;
}

/** A message of the later of two requests that are compared. */
export interface ComparedPart {
  role: string;
  excerpt: string;
  characters: number;
  /** Whether both requests are identical up to its end. */
  same: boolean;
}

export interface ContextView extends Omit<ContextRow, "number" | "user" | "question" | "answer" | "prompt" | "cached" | "expected_cached" | "cost" | "seconds" | "feedback" | "lines" | "run"> {
  number: number | null;
  run: RunPlace | null;
  endpoint: Endpoint;
  /** The score that 1,000 tokens have to be worth. */
  price: number;
  margin: number;
  hard_limit: number;
  reserved: number;
  remaining: number;
  basis: string;
  bands: Band[];
  pools: PoolUse[];
  kinds: KindUse[];
  decisions: Decision[];
  answers: Answer[];
  report: string;
}

/** Why something was not a candidate, and what to do about it. */
export interface Absence {
  kind: string;
  reason: string;
  why: string;
  fix: string;
  relevance: number | null;
}

/** A change with which the context includes an item that it left out. */
export interface Remedy {
  change: "window" | "price" | "pin";
  window: number | null;
  price: string | null;
  tokens: number;
  left: number;
}

export interface ItemView {
  /** Null if it was not a candidate. */
  decision: Decision | null;
  absence: Absence | null;
  remedies: Remedy[];
  /** The state of a memory now. */
  memory: { persona: string | null; user: string | null; room: string | null; pinned: boolean } | null;
  status: "" | "removed" | "erased";
  text: string;
  characters: number;
  /** What the model saw of a shortened item. */
  seen: string;
  handle: string;
  metadata: Record<string, unknown>;
  required_window: number | null;
  builds: { id: string; at: number; outcome: Outcome; reason: string }[];
}

/** A candidate that matches a search, or a record that was not a candidate. */
export interface Match {
  id: string;
  kind: string;
  excerpt: string;
  at: number;
  outcome: Outcome | null;
  reason: string;
  why: string;
}

export interface FindResult {
  matches: Match[];
  partial: boolean;
}

/** What was recalled: all of an item, or the part that fits. */
export interface Recalled {
  text: string;
  tokens: number;
  whole: boolean;
  size: number;
  handle: string;
  id: string;
  kind: string;
  form: Form | null;
  outcome: Outcome | null;
  passages: Recalled[];
}

export interface Change {
  id: string;
  before: Outcome | null;
  after: Outcome | null;
  before_reason: string | null;
  after_reason: string | null;
  before_form: Form | null;
  after_form: Form | null;
  tokens: number;
  /** Null if no search gave it one. */
  relevance: number | null;
  kind: string;
  excerpt: string;
}

export interface Exceeded {
  needed: number;
  limit: number;
  message: string;
  required: [string, number][];
}

export interface WhatIf {
  context: ContextView | null;
  exceeded: Exceeded | null;
  entered: Change[];
  left: Change[];
  changed: Change[];
  prefix_share: number;
}

/** The answer to a context with other settings, which is not stored. */
export interface AnsweredAgain {
  text: string;
  calls: { name: string; arguments: string }[];
  model: string;
  route: string;
  finish: string;
  seconds: number;
  /** Our count of the prompt. */
  tokens: number;
  usage: Usage | null;
  cost: number | null;
}

export interface Difference {
  before: ContextRow;
  after: ContextRow;
  entered: Change[];
  left: Change[];
  changed: Change[];
  common_prefix: number;
  prefix_share: number;
  messages: ComparedPart[];
}

export interface ModelRow {
  id: string;
  provider: string;
  window: number;
  max_output: number;
  max_input: number | null;
}

export interface ModelList {
  models: ModelRow[];
  default: string;
  upstreams: string[];
}

/** The models that upstreams offer. They may serve others. */
export interface ServedModels {
  models: string[];
}

export interface PolicyList {
  policies: { name: string; description: string; pools: string[] }[];
}

export interface TextCount {
  tokens: number;
  basis: string;
}
