/** A client for the endpoints of `brimful serve` that make requests fit. */

/** The format of a request. */
export type Wire = "openai" | "anthropic" | "responses" | "gemini";

/** The options of `fit`: those of `brimful.fit` in Python. */
export interface FitOptions {
  /** The format of the request: OpenAI's chat completions by default. */
  wire?: Wire | undefined;
  /** The conversation that the request continues. */
  conversation?: string | undefined;
  /** The model to count for, if the request names another one. */
  model?: string | undefined;
  /** The server that the request goes to, if that is not the model's own provider. */
  route?: string | undefined;
  policy?: string | undefined;
  window?: number | undefined;
  completion?: number | undefined;
  maxPromptTokens?: number | undefined;
  minTokens?: number | undefined;
  betas?: readonly string[] | undefined;
  /** Messages that must stay, by index. */
  pin?: readonly number[] | undefined;
  /** Messages that are kept or left out together, by index. */
  ties?: readonly (readonly number[])[] | undefined;
  overrides?: Record<string, unknown> | undefined;
  signal?: AbortSignal | undefined;
}

/** Something that a context warns of. */
export interface Notice {
  kind: string;
  text: string;
  facts: Record<string, unknown>;
}

/** A request that fits, and what was changed in it. */
export interface Fitted<Request = Record<string, unknown>> {
  /** The id of the context, which the inspector shows. */
  id: string;
  model: string;
  policy: string;
  window: number;
  completion: number;
  /** How many tokens the request may have. */
  limit: number;
  tokens: number;
  /** The messages that stay, by their indices in the request that was sent. */
  positions: number[];
  /** Those of `positions` that are not complete. */
  shortened: number[];
  /** The text of a user message that stands for the steps of an agent that are out; empty if there is none. */
  ledger: string;
  warnings: Notice[];
  /** Whether the server has stored the context, so that its usage can be reported. */
  recorded: boolean;
  request: Request;
}

/** What a provider billed. `cached` is part of `prompt`, and `reasoning` part of `completion`. */
export interface Usage {
  prompt: number;
  cached?: number | undefined;
  completion?: number | undefined;
  reasoning?: number | undefined;
  /** The model that answered. */
  model?: string | undefined;
  route?: string | undefined;
  finish?: string | undefined;
  seconds?: number | undefined;
}

export interface BrimfulOptions {
  /** The address of `brimful serve`: `http://127.0.0.1:8080` by default. */
  baseURL?: string | undefined;
  /** An API key of Brimful with the scope `chat`, if the server requires keys. */
  apiKey?: string | undefined;
  headers?: Record<string, string> | undefined;
  fetch?: typeof globalThis.fetch | undefined;
}

/** An error that the server answered with. */
export class BrimfulError extends Error {
  override readonly name = "BrimfulError";

  constructor(
    message: string,
    /** The HTTP status. */
    readonly status: number,
    /** Such as `context_length_exceeded` or `invalid_api_key`. */
    readonly code: string | null,
    /** The field that is wrong. */
    readonly param: string | null,
    /** Seconds to wait, if the server says so. */
    readonly retryAfter: number | null,
  ) {
    super(message);
  }
}

export class Brimful {
  readonly baseURL: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: BrimfulOptions = {}) {
    this.baseURL = (options.baseURL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.#headers = {
      ...options.headers,
      ...(options.apiKey === undefined ? {} : { "x-brimful-key": options.apiKey }),
      "content-type": "application/json",
    };
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** Make a request fit its window. Send the `request` of the result, or your own messages at its `positions`. */
  async fit<Request extends object>(request: Request, options: FitOptions = {}): Promise<Fitted<Request>> {
    const { signal, maxPromptTokens, minTokens, ...same } = options;
    const body = { request, ...same, max_prompt_tokens: maxPromptTokens, min_tokens: minTokens };
    return (await this.#post("/brimful/v1/fit", body, signal)) as Fitted<Request>;
  }

  /** Report what the provider billed for the request of a context, so that later counts become more exact. */
  async reportUsage(context: string, usage: Usage, signal?: AbortSignal): Promise<void> {
    await this.#post(`/brimful/v1/contexts/${encodeURIComponent(context)}/usage`, usage, signal);
  }

  async #post(path: string, body: object, signal: AbortSignal | undefined): Promise<unknown> {
    const fetch = this.#fetch; // called without `this`, as browsers want it
    const response = await fetch(this.baseURL + path, {
      method: "POST",
      headers: this.#headers,
      body: JSON.stringify(body),
      signal: signal ?? null,
    });
    if (!response.ok) {
      throw await readError(response);
    }
    return response.json();
  }
}

async function readError(response: Response): Promise<BrimfulError> {
  const text = await response.text();
  let error: { message?: string; code?: string | null; param?: string | null } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // not an answer of Brimful: its first words tell what it is
  }
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new BrimfulError(
    error.message ?? `${response.status} ${response.statusText}: ${text.slice(0, 200)}`,
    response.status,
    error.code ?? null,
    error.param ?? null,
    Number.isFinite(retryAfter) ? retryAfter : null,
  );
}
