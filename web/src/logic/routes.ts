/** Match URLs to pages. */

export type Page =
  | "contexts" | "run" | "context" | "message" | "what-if" | "diff" | "stats"
  | "rooms" | "room" | "timeline" | "why" | "personas" | "persona" | "memories" | "audit" | "lorebooks" | "lorebook"
  | "sessions" | "session" | "admin";

export interface Route {
  /** null if there is no such page. */
  page: Page | null;
  path: string;
  params: string[];
  query: URLSearchParams;
}

const ROUTES: [RegExp, Page][] = [
  [/^\/$/, "contexts"],
  [/^\/runs\/([^/]+)$/, "run"],
  [/^\/contexts\/([^/]+)$/, "context"],
  [/^\/messages\/([^/]+)$/, "message"],
  [/^\/contexts\/([^/]+)\/what-if$/, "what-if"],
  [/^\/diff(?:\/([^/]+)\/([^/]+))?$/, "diff"],
  [/^\/stats$/, "stats"],
  [/^\/rooms$/, "rooms"],
  [/^\/rooms\/([^/]+)$/, "room"],
  [/^\/rooms\/([^/]+)\/timeline$/, "timeline"],
  [/^\/personas$/, "personas"],
  [/^\/personas\/([^/]+)$/, "persona"],
  [/^\/memories$/, "memories"],
  [/^\/memories\/audit$/, "audit"],
  [/^\/memories\/([^/]+)\/why$/, "why"],
  [/^\/lorebooks$/, "lorebooks"],
  [/^\/lorebooks\/([^/]+)$/, "lorebook"],
  [/^\/admin$/, "admin"],
  [/^\/sessions$/, "sessions"],
  [/^\/sessions\/([^/]+)$/, "session"],
];

export function match(address: string): Route {
  const [path = "", search = ""] = address.split("?", 2);
  const query = new URLSearchParams(search);
  for (const [pattern, page] of ROUTES) {
    const found = pattern.exec(path.length > 1 ? path.replace(/\/$/, "") : path);
    if (found) return { page, path, params: found.slice(1).filter(Boolean).map(decoded), query };
  }
  return { page: null, path, params: [], query };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // a lone % is not an escape
  }
}

export const contextPath = (id: string): string => `/contexts/${encodeURIComponent(id)}`;
/** A run, with one of its steps open. */
export const runPath = (id: string, step = 0): string => `/runs/${encodeURIComponent(id)}${step > 0 ? `?step=${step}` : ""}`;
export const itemPath = (id: string, item: string): string => `${contextPath(id)}?${new URLSearchParams({ item })}`;
/** A part of the page of a context, with the item whose panel is open. */
export const tabPath = (id: string, tab: string, item = ""): string => `${contextPath(id)}?${new URLSearchParams({ tab, ...(item && { item }) })}`;
export const whatIfPath = (id: string, settings: Record<string, string> = {}): string => {
  const query = new URLSearchParams(settings).toString();
  return `${contextPath(id)}/what-if${query && `?${query}`}`;
};
export const diffPath = (a: string, b: string): string => `/diff/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
export const roomPath = (id: string): string => `/rooms/${encodeURIComponent(id)}`;
export const timelinePath = (id: string, context = ""): string => `${roomPath(id)}/timeline${context && `?${new URLSearchParams({ context })}`}`;
/** The list of memories, with one of them. */
export const memoryPath = (id: string): string => `/memories?${new URLSearchParams({ id })}`;
export const whyPath = (memory: string): string => `/memories/${encodeURIComponent(memory)}/why`;
export const personaPath = (id: string): string => `/personas/${encodeURIComponent(id)}`;
export const lorebookPath = (id: string): string => `/lorebooks/${encodeURIComponent(id)}`;
export const sessionPath = (id: string): string => `/sessions/${encodeURIComponent(id)}`;
export const messagePath = (id: string): string => `/messages/${encodeURIComponent(id)}`;
