/** API calls, with the API key if there is one, and readable errors. */

import { signal } from "@preact/signals";

export const BASE = "/brimful/v1";
const KEY = "brimful-key";

/** The API key of this tab, deleted when the tab is closed. */
export const key = signal(sessionStorage.getItem(KEY) ?? "");

/** Why an API key is needed; empty if none is. */
export const keyPrompt = signal("");

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string = "",
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export function useKey(value: string): void {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  keyPrompt.value = "";
  key.value = value;
}

/** Build a path such as `/contexts/{id}`, with the names URL-encoded. */
export function path(strings: TemplateStringsArray, ...names: (string | number)[]): string {
  return strings.reduce((whole, piece, at) => whole + encodeURIComponent(String(names[at - 1])) + piece);
}

/** Build a query string without empty values. */
export function query(values: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== "" && value !== null && value !== undefined && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

export interface Call {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Call the server and return the response if it succeeded. */
export async function call(where: string, { method = "GET", body, signal, headers }: Call = {}): Promise<Response> {
  const allHeaders: Record<string, string> = { accept: "application/json", ...headers };
  if (key.value) allHeaders["authorization"] = `Bearer ${key.value}`;
  if (body !== undefined) allHeaders["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(BASE + where, {
      method,
      headers: allHeaders,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      cache: "no-store",
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError("Cannot reach the server. Is `brimful serve` still running?", 0);
  }
  if (!response.ok) throw await toError(response);
  return response;
}

export async function json<T>(where: string, options?: Call): Promise<T> {
  const response = await call(where, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Return the server's error code. */
export function errorCode(error: unknown): string {
  return error instanceof ApiError ? error.code : "";
}

/** Return a readable message for any error. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function toError(response: Response): Promise<ApiError> {
  const { message, code } = await readError(response);
  if (response.status === 401) keyPrompt.value = key.value ? message : "This server requires an API key.";
  return new ApiError(message, response.status, code);
}

async function readError(response: Response): Promise<{ message: string; code: string }> {
  try {
    const { error } = (await response.json()) as { error: { message: string; code?: string | null } };
    return { message: error.message, code: error.code ?? "" };
  } catch {
    return { message: `The server returned status ${response.status} without a message.`, code: "" };
  }
}
