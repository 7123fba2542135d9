/** Stored records in the server's JSON, each with its token count. */

import type { Answer } from "./types";

export type Settings = Record<string, unknown>;

/** A text inserted at a fixed distance from the end of every prompt. */
export interface Note {
  text: string;
  name: string;
  depth: number | null;
  role: string;
  every: number;
}

export interface Room {
  id: string;
  name: string;
  user: string | null;
  /** Who answers in it. */
  persona: string | null;
  goal: string;
  focus: string;
  headers: string[];
  lorebooks: string[];
  notes: Note[];
  character: Settings | null;
  created: number;
  metadata: Settings;
  tokens: number;
}

export interface RoomList {
  rooms: Room[];
  next: string | null;
}

export interface Message {
  id: string;
  room: string;
  content: string | { type: string; text?: string }[];
  sender: string;
  role: string;
  at: number;
  seq: number;
  edited: number | null;
  /** The persona that said it. */
  persona: string | null;
  /** Hidden messages are in no context; a superseded one was replaced by another. */
  hidden: boolean;
  superseded: boolean;
  tokens: number;
  /** The record of an answer; null if it is none. */
  answer: Answer | null;
  /** The context that it answers, or that was built for it. */
  context: string | null;
  relevance: number | null;
  parts: Record<string, number> | null;
}

export interface MessageList {
  messages: Message[];
  next: number | null;
}

export interface Persona {
  id: string;
  name: string;
  prompt: string;
  focus: string;
  character: Settings | null;
  model: string;
  provider: string;
  policy: string;
  completion: number | null;
  overrides: Settings;
  lorebooks: string[];
  notes: Note[];
  metadata: Settings;
  tokens: number;
}

export interface PersonaList {
  personas: Persona[];
  next: string | null;
}

export type MemoryType = "episodic" | "semantic" | "procedural";

/** Where a memory comes from. */
export type Origin = "message" | "session" | "import" | "tool" | "other" | "direct";

export interface Memory {
  id: string;
  content: string;
  type: MemoryType;
  persona: string | null;
  user: string | null;
  room: string | null;
  importance: number;
  source: string;
  source_message: string | null;
  source_removed: boolean;
  cluster: string | null;
  summary: boolean;
  at: number;
  pinned: boolean;
  accesses: number;
  /** When it was last in a context. */
  accessed: number | null;
  edited: number | null;
  metadata: Settings;
  tokens: number;
  origin: Origin;
  /** The program or source that `origin` speaks of. */
  program: string;
  /** The memory that it replaced. */
  replaces: string | null;
  /** A proposed memory is in no context until somebody confirms it. */
  state: "active" | "proposed" | "rejected";
  archived: boolean;
  /** When it stopped being true. */
  ended: number | null;
  /** The run that archived it, if one did, and which memory replaced it; `at` is when it stopped being true. */
  archival: { run: number; kind: string; at: number; replaced_by: string | null } | null;
}

export interface MemoryChain {
  memories: Memory[];
}

export type FindingKind = "duplicate" | "near-duplicate" | "contradicted" | "junk" | "unused";

/** A memory that is not worth having; `other` is the one that it repeats, or that contradicts it. */
export interface Finding {
  id: string;
  kind: FindingKind;
  reason: string;
  other: string;
}

export interface Audit {
  memories: number;
  counts: Partial<Record<FindingKind, number>>;
  findings: Finding[];
  records: Record<string, Memory>;
}

export interface JanitorRun {
  number: number;
  kind: string;
  state: string;
  started: number;
  facts: Record<string, number>;
}

export interface JanitorRuns {
  runs: JanitorRun[];
}

export interface MemoryList {
  memories: Memory[];
  next: string | null;
}

export interface Lorebook {
  id: string;
  name: string;
  description: string;
  scan_depth: number;
  budget: number | null;
  recursion: number;
  settings: Settings;
  entries: number;
  tokens: number;
}

export interface LorebookList {
  lorebooks: Lorebook[];
  next: string | null;
}

export interface LoreEntry {
  id: string;
  lorebook: string;
  content: string;
  name: string;
  keys: string[];
  secondary: string[];
  logic: string;
  regex: boolean;
  vector: boolean;
  probability: number;
  sticky: number;
  cooldown: number;
  delay: number;
  constant: boolean;
  enabled: boolean;
  order: number;
  importance: number;
  settings: Settings;
  tokens: number;
}

export interface EntryList {
  entries: LoreEntry[];
}
