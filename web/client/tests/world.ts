/** Both versions of the AI SDK, and what tests need of them and of the server. */

import * as ai6 from "ai";
import * as mocks6 from "ai/test";
import * as ai7 from "ai-7";
import * as mocks7 from "ai-7/test";

import { Brimful } from "../src/client.js";
import type { Message, Part } from "../src/translate.js";

/** The address of a server, which `tests/server/test_client.py` starts. */
export const address = process.env["BRIMFUL_URL"] ?? "http://127.0.0.1:8080";
export const client = new Brimful({ baseURL: address });

/** The answers of a scripted model, one for each call. */
export type Script = (call: number, prompt: Message[]) => Part[];

// The two versions have different types for the same calls, of which these tests need only one.
type Sdk = typeof ai6;

export interface Version {
  name: string;
  sdk: Sdk;
  /** Return a model that follows a script, the prompts that it gets, and what it bills for the next one. */
  scripted: (script: Script) => {
    model: Parameters<Sdk["wrapLanguageModel"]>[0]["model"];
    prompts: Message[][];
    bill: { tokens: number };
  };
}

function makeScripted(Mock: typeof mocks6.MockLanguageModelV3, sdk: Sdk): Version["scripted"] {
  return (script) => {
    const modelId = "gpt-4o";
    const prompts: Message[][] = [];
    const bill = { tokens: 0 };
    const answer = (options: { prompt: unknown }) => {
      prompts.push(options.prompt as Message[]);
      const content = script(prompts.length - 1, options.prompt as Message[]);
      const unified = content.some((part) => part.type === "tool-call") ? ("tool-calls" as const) : ("stop" as const);
      const usage = {
        inputTokens: { total: bill.tokens, noCache: bill.tokens - 8, cacheRead: 8, cacheWrite: 0 },
        outputTokens: { total: 20, text: 15, reasoning: 5 },
      };
      return { content: content as never, finishReason: { unified, raw: unified }, usage };
    };
    const model = new Mock({
      modelId,
      doGenerate: async (options) => ({ ...answer(options), warnings: [], response: { modelId: `${modelId}-real` } }),
      doStream: async (options) => {
        const { content, finishReason, usage } = answer(options);
        const chunks = (content as Part[]).flatMap((part, at) => {
          const begin = { type: `${part.type}-start`, id: `${at}` };
          const delta = { type: `${part.type}-delta`, id: `${at}`, delta: part["text"] };
          return part.type === "tool-call" ? [part] : [begin, delta, { type: `${part.type}-end`, id: `${at}` }];
        });
        const start = [{ type: "stream-start", warnings: [] }, { type: "response-metadata", modelId: `${modelId}-real` }];
        const all = [...start, ...chunks, { type: "finish", finishReason, usage }];
        return { stream: sdk.simulateReadableStream({ chunks: all, chunkDelayInMs: null, initialDelayInMs: null }) as never };
      },
    });
    return { model, prompts, bill };
  };
}

export const versions: Version[] = [
  { name: "ai 6", sdk: ai6, scripted: makeScripted(mocks6.MockLanguageModelV3, ai6) },
  {
    name: "ai 7",
    sdk: ai7 as unknown as Sdk,
    scripted: makeScripted(mocks7.MockLanguageModelV4 as unknown as typeof mocks6.MockLanguageModelV3, ai7 as unknown as Sdk),
  },
];

/** What the inspector shows about a context. */
export async function shown(id: string): Promise<{ room: string; answers: { usage: object; finish: string; model: string }[] }> {
  const response = await fetch(`${address}/brimful/v1/contexts/${id}`);
  if (!response.ok) {
    throw new Error(`${response.status}: ${await response.text()}`);
  }
  return response.json();
}
