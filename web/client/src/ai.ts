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

/**
 * Return middleware for `wrapLanguageModel`. Messages that stay are the SDK's own objects.
 *
 * To name the conversation of a call, pass `providerOptions: { brimful: { conversation } }` to it.
 */
export function brimfulMiddleware(options: MiddlewareOptions): LanguageModelMiddleware {
  const { client, onFit, onError, waitUntil, ...settings } = options;
  const fits = new WeakMap<object, { fitted: Fitted<WireRequest>; route: string | undefined; started: number }>();

  const transformParams = async ({ params, model }: { params: CallOptions; model: { modelId: string } }) => {
    const translated = translatePrompt(params.prompt);
    const request: WireRequest = { model: model.modelId, messages: translated.messages, ...otherFields(params) };
    let fitted: Fitted<WireRequest>;
    try {
      fitted = await client.fit(request, {
        ...settings,
        ...conversationOf(params),
        completion: settings.completion ?? params.maxOutputTokens,
        ties: translated.ties,
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
    fits.set(changed, { fitted, route: settings.route, started: performance.now() });
    return changed;
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

  const wrapGenerate = async <R extends Finished>(call: { doGenerate: () => PromiseLike<R>; params: object }) => {
    const result = await call.doGenerate();
    report(call.params, result);
    return result;
  };

  const wrapStream = async <R extends { stream: ReadableStream<Chunk> }>(call: {
    doStream: () => PromiseLike<R>;
    params: object;
  }) => {
    const result = await call.doStream();
    let modelId: string | undefined;
    const listener = new TransformStream<Chunk, Chunk>({
      transform(chunk, controller) {
        modelId = chunk.type === "response-metadata" ? (chunk.modelId ?? modelId) : modelId;
        if (chunk.type === "finish") {
          const response = modelId === undefined ? {} : { modelId };
          report(call.params, { ...(chunk as unknown as Finished), response });
        }
        controller.enqueue(chunk);
      },
    });
    return { ...result, stream: result.stream.pipeThrough(listener) };
  };

  // The SDK's types differ between its versions; what is read here is the same in both.
  return { specificationVersion: "v3", transformParams, wrapGenerate, wrapStream } as unknown as LanguageModelMiddleware;
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
