/** Calls of the server: with the key where there is one, and errors in words. */

import { signal } from "@preact/signals";

const BASE = "/brimful/v1";
const KEY = "brimful-key";

/** The key of this tab. It is gone when the tab is closed. */
export const key = signal(sessionStorage.getItem(KEY) ?? "");

/** Why a key is asked for, or nothing if none is. */
export const keyWanted = signal("");

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
  keyWanted.value = "";
  key.value = value;
}

/** `/contexts/{id}` with names that may hold anything. */
export function path(strings: TemplateStringsArray, ...names: (string | number)[]): string {
  return strings.reduce((whole, piece, at) => whole + encodeURIComponent(String(names[at - 1])) + piece);
}

/** A query of what is said; what is empty is left out. */
export function query(said: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(said)) {
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

/** Ask the server, and return its response if it is a success. */
export async function call(where: string, { method = "GET", body, signal, headers }: Call = {}): Promise<Response> {
  const said: Record<string, string> = { accept: "application/json", ...headers };
  if (key.value) said["authorization"] = `Bearer ${key.value}`;
  if (body !== undefined) said["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(BASE + where, {
      method,
      headers: said,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      cache: "no-store",
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError("The server cannot be reached. Is `brimful serve` still running?", 0);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function json<T>(where: string, options?: Call): Promise<T> {
  const response = await call(where, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What the server calls an error, for who wants to tell one from another. */
export function codeOf(error: unknown): string {
  return error instanceof ApiError ? error.code : "";
}

/** What an error says to a person. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function refusal(response: Response): Promise<ApiError> {
  const { message, code } = await said(response);
  if (response.status === 401) keyWanted.value = key.value ? message : "This server wants a key.";
  return new ApiError(message, response.status, code);
}

async function said(response: Response): Promise<{ message: string; code: string }> {
  try {
    const { error } = (await response.json()) as { error: { message: string; code?: string | null } };
    return { message: error.message, code: error.code ?? "" };
  } catch {
    return { message: `The server answered with status ${response.status}, and said no more.`, code: "" };
  }
}
