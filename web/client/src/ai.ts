/** Middleware for the AI SDK that makes every prompt fit its window. */

import type { LanguageModelMiddleware } from "ai";

import type { Brimful, FitOptions, Fitted, Usage } from "./client.js";
import { type Message, rebuildPrompt, type Translated, translatePrompt, type WireRequest } from "./translate.js";

export interface MiddlewareOptions extends Omit<FitOptions, "wire" | "pin" | "ties" | "signal"> {
  client: Brimful;
  /** Called with each fitted prompt. */
  onFit?: ((fitted: Fitted<WireRequest>) => void) | undefined;
  /** Called if a prompt cannot be fitted, which is then sent as it is, or if usage cannot be reported. */
  onError?: ((error: unknown) => void) | undefined;
  /** Called with the promise of each usage report. In serverless functions, pass the platform's own `waitUntil`. */
  waitUntil?: ((report: Promise<void>) => void) | undefined;
}

/** What is read of the SDK's call options, in its versions 3 and 4. */
interface CallOptions {
  prompt: Message[];
  maxOutputTokens?: number | undefined;
  tools?: { type: string; name: string; description?: string; inputSchema?: unknown; args?: unknown }[] | undefined;
  responseFormat?: { type: string; schema?: unknown; name?: string } | undefined;
  abortSignal?: AbortSignal | undefined;
  providerOptions?: Record<string, Record<string, unknown>> | undefined;
}

interface SdkUsage {
  inputTokens: { total: number | undefined; cacheRead: number | undefined };
  outputTokens: { total: number | undefined; reasoning: number | undefined };
}

/** What is read of a result, and of the last chunk of a stream. */
interface Finished {
  usage: SdkUsage;
  finishReason: { unified: string } | string;
  response?: { modelId?: string };
}

interface Chunk {
  type: string;
  modelId?: string;
}

interface Model<R> {
  modelId: string;
  doGenerate: (params: never) => PromiseLike<R>;
  doStream: (params: never) => PromiseLike<R>;
}

/** A fitted call: its options before it was fitted, and its context. */
interface Fit {
  given: CallOptions;
  fitted: Fitted<WireRequest>;
  route: string | undefined;
  started: number;
}

/**
 * Return middleware for `wrapLanguageModel`. Messages that stay are the SDK's own objects.
 *
 * A prompt that the provider refuses as too long is made smaller and sent once more.
 *
 * To name the conversation of a call, pass `providerOptions: { brimful: { conversation } }` to it.
 */
export function brimfulMiddleware(options: MiddlewareOptions): LanguageModelMiddleware {
  const { client, onFit, onError, waitUntil, ...settings } = options;
  const fits = new WeakMap<object, Fit>();

  const fitParams = async (params: CallOptions, modelId: string, window = settings.window): Promise<CallOptions> => {
    const translated = translatePrompt(params.prompt);
    const request: WireRequest = { model: modelId, messages: translated.messages, ...otherFields(params) };
    let fitted: Fitted<WireRequest>;
    try {
      fitted = await client.fit(request, {
        ...settings,
        ...conversationOf(params),
        window,
        completion: settings.completion ?? params.maxOutputTokens,
        ties: translated.ties,
        // The SDK sends its own tools, so their definitions must be counted in full.
        ...(params.tools?.length ? { overrides: { ...settings.overrides, "tools.trim": false } } : {}),
        signal: params.abortSignal,
      });
    } catch (error) {
      if (onError === undefined || params.abortSignal?.aborted) {
        throw error;
      }
      onError(error);
      return params;
    }
    onFit?.(fitted);
    const changed = applyFit(params, translated, fitted, settings.completion);
    fits.set(changed, { given: params, fitted, route: settings.route, started: performance.now() });
    return changed;
  };

  const transformParams = ({ params, model }: { params: CallOptions; model: { modelId: string } }) =>
    fitParams(params, model.modelId);

  /** Send a prompt; once more, if the provider refuses it as too long. Return what was sent, and the result. */
  const send = async <R>(params: object, modelId: string, first: () => PromiseLike<R>, again: (smaller: never) => PromiseLike<R>) => {
    try {
      return { sent: params, result: await first() };
    } catch (error) {
      const fit = fits.get(params);
      const window = fit === undefined ? undefined : retryWindow(error, fit.fitted);
      if (fit === undefined || window === undefined) {
        throw error;
      }
      const sent = await fitParams(fit.given, modelId, window);
      return { sent, result: await again(sent as never) };
    }
  };

  const report = (params: object, finished: Finished): void => {
    const fit = fits.get(params);
    if (fit === undefined || !fit.fitted.recorded || finished.usage.inputTokens.total === undefined) {
      return;
    }
    const seconds = (performance.now() - fit.started) / 1000;
    const reporting = client
      .reportUsage(fit.fitted.id, { ...readUsage(finished), route: fit.route, seconds })
      .catch(onError ?? ((error: unknown) => console.warn("Brimful: usage was not reported:", error)));
    waitUntil?.(reporting);
  };

  const wrapGenerate = async <R extends Finished>(call: {
    doGenerate: () => PromiseLike<R>;
    params: object;
    model: Model<R>;
  }) => {
    const { doGenerate, params, model } = call;
    const { sent, result } = await send(params, model.modelId, doGenerate, (smaller) => model.doGenerate(smaller));
    report(sent, result);
    return result;
  };

  const wrapStream = async <R extends { stream: ReadableStream<Chunk> }>(call: {
    doStream: () => PromiseLike<R>;
    params: object;
    model: Model<R>;
  }) => {
    const { doStream, params, model } = call;
    const { sent, result } = await send(params, model.modelId, doStream, (smaller) => model.doStream(smaller));
    let modelId: string | undefined;
    const listener = new TransformStream<Chunk, Chunk>({
      transform(chunk, controller) {
        modelId = chunk.type === "response-metadata" ? (chunk.modelId ?? modelId) : modelId;
        if (chunk.type === "finish") {
          const response = modelId === undefined ? {} : { modelId };
          report(sent, { ...(chunk as unknown as Finished), response });
        }
        controller.enqueue(chunk);
      },
    });
    return { ...result, stream: result.stream.pipeThrough(listener) };
  };

  // The SDK's types differ between its versions; what is read here is the same in both.
  return { specificationVersion: "v3", transformParams, wrapGenerate, wrapStream } as unknown as LanguageModelMiddleware;
}

const TOO_LONG = /context.?(length|window)|(prompt|input|request) is too long|too many (input )?tokens|exceeds? the (maximum|context)/i;
const NAMED_WINDOW = /(?:maximum|limit|window)\D{0,40}?([\d,]{3,})|> ([\d,]+) max/i;
const RETRY_SHARE = 0.75; // of the tokens of a prompt that was refused

/** Return the window to try after a prompt was refused as too long: the one that the error names, or a smaller one. */
function retryWindow(error: unknown, fitted: Fitted<WireRequest>): number | undefined {
  const { message, responseBody } = (error ?? {}) as { message?: unknown; responseBody?: unknown };
  const text = `${String(message)} ${String(responseBody)}`;
  if (!TOO_LONG.test(text)) {
    return undefined;
  }
  const found = NAMED_WINDOW.exec(text);
  const named = Number((found?.[1] ?? found?.[2] ?? "").replaceAll(",", ""));
  return named > 0 && named < fitted.window ? named : Math.floor(fitted.tokens * RETRY_SHARE) + fitted.completion;
}

function conversationOf(params: CallOptions): { conversation?: string } {
  const conversation = params.providerOptions?.["brimful"]?.["conversation"];
  return typeof conversation === "string" ? { conversation } : {};
}

/** Return the other fields of a request that take tokens. */
function otherFields(params: CallOptions): Partial<WireRequest> {
  const tools = (params.tools ?? []).map((tool) => ({
    type: "function",
    function: { name: tool.name, description: tool.description, parameters: tool.inputSchema ?? tool.args ?? {} },
  }));
  const { schema, name } = params.responseFormat ?? {};
  const format = { type: "json_schema", json_schema: { name: name ?? "response", schema } };
  return { ...(tools.length > 0 ? { tools } : {}), ...(schema === undefined ? {} : { response_format: format }) };
}

/** Return the call options with the fitted prompt; the very same list if nothing changed. */
function applyFit(
  params: CallOptions,
  translated: Translated,
  fitted: Fitted<WireRequest>,
  completion: number | undefined,
): CallOptions {
  const isComplete = fitted.positions.length === translated.messages.length && fitted.shortened.length === 0;
  return {
    ...params,
    ...(completion === undefined || params.maxOutputTokens !== undefined ? {} : { maxOutputTokens: completion }),
    prompt: isComplete ? params.prompt : rebuildPrompt(params.prompt, translated, fitted),
  };
}

function readUsage({ usage, finishReason, response }: Finished): Usage {
  return {
    prompt: usage.inputTokens.total ?? 0,
    cached: usage.inputTokens.cacheRead ?? 0,
    completion: usage.outputTokens.total ?? 0,
    reasoning: usage.outputTokens.reasoning ?? 0,
    finish: typeof finishReason === "string" ? finishReason : finishReason.unified,
    model: response?.modelId,
  };
}
