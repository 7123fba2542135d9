import { describe, expect, test } from "vitest";
import { z } from "zod";

import { brimfulMiddleware, type MiddlewareOptions } from "../src/ai.js";
import { Brimful, type Fitted } from "../src/client.js";
import { type Message, type Part, translatePrompt, type WireRequest } from "../src/translate.js";
import { client, type Script, shown, type Version, versions } from "./world.js";

const WINDOW = { window: 4_000, completion: 500 };
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const HISTORY = Array.from({ length: 121 }, (_, at) => ({
  role: at % 2 === 0 ? ("user" as const) : ("assistant" as const),
  content: `Turn ${at}. ${"tea ".repeat(60)}`,
}));

/** Wrap a scripted model; `before` are the prompts that the middleware gets, and `prompts` those of the model. */
function wrap(version: Version, script: Script, options: Partial<MiddlewareOptions> = {}) {
  const { model, prompts, bill } = version.scripted(script);
  const before: Message[][] = [];
  const fits: Fitted<WireRequest>[] = [];
  const reports: Promise<void>[] = [];
  const spy = {
    specificationVersion: "v3" as const,
    transformParams: async ({ params }: { params: { prompt: unknown } }) => {
      before.push(params.prompt as Message[]);
      return params as never;
    },
  };
  const fitting = brimfulMiddleware({
    client,
    onFit: (fitted) => {
      fits.push(fitted);
      bill.tokens = fitted.tokens; // what one test reports must not change how others count
    },
    waitUntil: (report) => reports.push(report),
    ...WINDOW,
    ...options,
  });
  return { model: version.sdk.wrapLanguageModel({ model, middleware: [spy, fitting] }), prompts, before, fits, reports };
}

/** Expect whole pairs of calls and results. */
function expectPairs(prompt: Message[]) {
  const parts = prompt.flatMap((message) => (typeof message.content === "string" ? [] : message.content));
  const ids = (type: string) => parts.filter((part) => part.type === type).map((part) => part["toolCallId"]);
  expect(ids("tool-result").sort()).toEqual(ids("tool-call").sort());
}

async function count(prompt: Message[], tools: object = {}): Promise<number> {
  const request = { model: "gpt-4o", messages: translatePrompt(prompt).messages, ...tools };
  return (await client.fit(request, { window: 10_000_000 })).tokens;
}

const say = (words: string): Script => () => [{ type: "text", text: words }];

/** A model that looks at pages until it has seen enough. */
function reader(pages: number): Script {
  return (call) =>
    call < pages
      ? [
          { type: "reasoning", text: `Page ${call} may have it.` },
          { type: "tool-call", toolCallId: `c${call}a`, toolName: "look", input: JSON.stringify({ page: call }) },
          { type: "tool-call", toolCallId: `c${call}b`, toolName: "look", input: JSON.stringify({ page: -call }) },
        ]
      : [{ type: "text", text: "Sencha." }];
}

describe.each(versions)("$name", (version) => {
  const { generateText, streamText, stepCountIs, tool } = version.sdk;
  const tools = {
    look: tool({
      description: "Look at a page.",
      inputSchema: z.object({ page: z.number() }),
      execute: async ({ page }) => ({ page, text: `leaf ${page} `.repeat(80) }),
    }),
  };

  test("messages that stay are the SDK's own objects", async () => {
    const { model, prompts, before, fits, reports } = wrap(version, say("Yes."));
    const result = await generateText({ model, system: "You know tea.", messages: HISTORY });
    expect(result.text).toBe("Yes.");
    const sent = prompts[0]!;
    expect(sent.length).toBeLessThan(before[0]!.length);
    expect(sent).toEqual(before[0]!.filter((message) => sent.includes(message)));
    expect(sent[0]).toMatchObject({ role: "system", content: "You know tea." });
    expect(await count(sent)).toBeLessThanOrEqual(fits[0]!.limit);
    await Promise.all(reports);
    expect(await shown(fits[0]!.id)).toMatchObject({
      answers: [
        {
          usage: { prompt: fits[0]!.tokens, cached: 8, completion: 20, reasoning: 5 },
          finish: "stop",
          model: "gpt-4o-real",
        },
      ],
    });
  });

  test("a prompt that fits is the very same list", async () => {
    const { model, prompts, before } = wrap(version, say("Yes."));
    await generateText({ model, messages: HISTORY.slice(0, 3) });
    expect(prompts[0]).toBe(before[0]);
  });

  test("streams report their usage", async () => {
    const { model, prompts, before, fits, reports } = wrap(version, say("Yes."));
    const result = streamText({ model, messages: HISTORY, providerOptions: { brimful: { conversation: "stream" } } });
    expect(await result.text).toBe("Yes.");
    expect(prompts[0]!.length).toBeLessThan(before[0]!.length);
    await Promise.all(reports);
    expect(await shown(fits[0]!.id)).toMatchObject({
      room: "stream",
      answers: [{ usage: { prompt: fits[0]!.tokens }, finish: "stop", model: "gpt-4o-real" }],
    });
  });

  test.each(["generate", "stream"])("an agent goes on past its window (%s)", async (kind) => {
    const { model, prompts, before, fits, reports } = wrap(version, reader(40), { conversation: `agent-${kind}` });
    const call = { model, tools, prompt: "Find the cheapest tea.", stopWhen: stepCountIs(50) };
    const text = kind === "generate" ? (await generateText(call)).text : await streamText(call).text;
    expect(text).toBe("Sencha.");
    expect(prompts.length).toBe(41);
    const last = prompts.at(-1)!;
    expect(before.at(-1)!.length).toBe(81);
    expect(last.length).toBeLessThan(40);
    for (const [at, prompt] of prompts.entries()) {
      expectPairs(prompt);
      expect(prompt[0]).toBe(before[at]![0]);
      expect(fits[at]!.tokens).toBeLessThanOrEqual(fits[at]!.limit);
    }
    const ledger = fits.at(-1)!.ledger;
    expect(ledger).toContain("look");
    expect(last[1]).toEqual({ role: "user", content: [{ type: "text", text: ledger }] });
    await Promise.all(reports);
    expect(reports.length).toBe(41);
    expect((await shown(fits.at(-1)!.id)).answers.length).toBe(1);
  });

  test("with the policy `fit`, a run is a pure subsequence", async () => {
    const { model, prompts, before } = wrap(version, reader(20), { policy: "fit" });
    await generateText({ model, tools, prompt: "Find the cheapest tea.", stopWhen: stepCountIs(30) });
    for (const [at, prompt] of prompts.entries()) {
      expectPairs(prompt);
      expect(prompt).toEqual(before[at]!.filter((message) => prompt.includes(message)));
    }
    expect(prompts.at(-1)!.length).toBeLessThan(before.at(-1)!.length);
  });

  test("images and reasoning stay as they are", async () => {
    const { model, prompts, before, fits } = wrap(version, say("A leaf."));
    const messages = [
      ...HISTORY,
      { role: "assistant" as const, content: [{ type: "reasoning" as const, text: "Hm." }, { type: "text" as const, text: "Show me." }] },
      { role: "user" as const, content: [{ type: "text" as const, text: "What is it?" }, { type: "image" as const, image: PNG }] },
    ];
    await generateText({ model, messages });
    const own = before[0]!.slice(-2);
    expect(prompts[0]!.slice(-2)).toEqual(own);
    expect(prompts[0]!.at(-1)).toBe(own[1]);
    const wire = fits[0]!.request.messages;
    expect(wire.at(-1)!.content).toMatchObject([{ type: "text" }, { type: "image_url" }]);
    expect(wire.at(-2)).toMatchObject({ reasoning_content: "Hm.", content: "Show me." });
  });

  test("the reserve becomes the output limit of calls without one", async () => {
    const limits: unknown[] = [];
    const { model } = version.scripted(say("Yes."));
    const fitting = brimfulMiddleware({ client, ...WINDOW, route: "limits" });
    const spy = {
      specificationVersion: "v3" as const,
      transformParams: async ({ params }: { params: { maxOutputTokens?: number } }) => {
        limits.push(params.maxOutputTokens);
        return params as never;
      },
    };
    const wrapped = version.sdk.wrapLanguageModel({ model, middleware: [fitting, spy] });
    await generateText({ model: wrapped, prompt: "Hi" });
    await generateText({ model: wrapped, prompt: "Hi", maxOutputTokens: 77 });
    expect(limits).toEqual([500, 77]);
  });

  test.each(["generate", "stream"])("a prompt that is refused as too long is sent once more, smaller (%s)", async (kind) => {
    for (const message of ["This model's maximum context length is 2000 tokens.", "prompt is too long", "Bad key."]) {
      const script: Script = (call) => {
        if (call === 0) {
          throw new Error(message);
        }
        return [{ type: "text", text: "Yes." }];
      };
      const { model, prompts, fits, reports } = wrap(version, script);
      const call = { model, messages: HISTORY, maxRetries: 0 };
      const stream = () => streamText({ ...call, onError: () => {} }).text;
      const text = kind === "generate" ? generateText(call).then((result) => result.text) : Promise.resolve(stream());
      if (message === "Bad key.") {
        await expect(text).rejects.toThrow();
        expect(prompts.length).toBe(1);
        continue;
      }
      expect(await text).toBe("Yes.");
      expect(prompts[1]!.length).toBeLessThan(prompts[0]!.length);
      expect(fits[1]!.tokens).toBeLessThan(fits[0]!.tokens);
      await Promise.all(reports);
      expect((await shown(fits[1]!.id)).answers.length).toBe(1);
      expect((await shown(fits[0]!.id)).answers.length).toBe(0);
    }
  });

  test("without the server, a call fails, or goes on if you say so", async () => {
    const nobody = new Brimful({ baseURL: "http://127.0.0.1:9" });
    const strict = wrap(version, say("Yes."), { client: nobody });
    await expect(generateText({ model: strict.model, prompt: "Hi", maxRetries: 0 })).rejects.toThrow();
    expect(strict.prompts).toEqual([]);
    const errors: unknown[] = [];
    const lenient = wrap(version, say("Yes."), { client: nobody, onError: (error) => errors.push(error) });
    expect((await generateText({ model: lenient.model, prompt: "Hi" })).text).toBe("Yes.");
    expect(errors.length).toBe(1);
    expect(lenient.prompts).toEqual(lenient.before);
  });
});

// -- properties ------------------------------------------------------------------------------------------------------

/** Numbers that are the same in each run (mulberry32). */
function randomly(seed: number) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  const words = (limit: number) => Array.from({ length: 1 + below(limit) }, () => `w${below(900)}`).join(" ");
  return { below, words, chance: (share: number) => next() < share };
}

/** A prompt with texts, images, reasoning, parallel calls, errors, media in results and parts of no known kind. */
function makePrompt(seed: number): Message[] {
  const { below, words, chance } = randomly(seed);
  const text = (limit: number): Part => ({ type: "text", text: words(limit) });
  const image = (): Part => ({ type: "file", mediaType: "image/png", data: chance(0.5) ? PNG : { type: "data", data: PNG } });
  const output = (): Part => {
    const kinds: Part[] = [
      { type: "text", value: words(900) },
      { type: "json", value: { rows: Array.from({ length: below(40) }, (_, id) => ({ id, name: words(6) })) } },
      { type: "error-text", value: words(20) },
      { type: "error-json", value: { error: words(9) } },
      { type: "execution-denied", reason: words(4) },
      { type: "content", value: [text(60), chance(0.5) ? image() : { type: "image-data", mediaType: "image/png", data: PNG }] },
    ];
    return kinds[below(kinds.length)]!;
  };
  const messages: Message[] = chance(0.7) ? [{ role: "system", content: words(40) }] : [];
  for (let turn = 0; turn < 2 + below(10); turn += 1) {
    messages.push({ role: "user", content: [text(120), ...(chance(0.2) ? [image()] : [])] });
    for (let step = 0; step < below(5); step += 1) {
      const calls = Array.from({ length: 1 + below(3) }, (_, at) => ({
        type: "tool-call",
        toolCallId: `${turn}-${step}-${at}`,
        toolName: "look",
        input: { query: words(8) },
      }));
      messages.push({
        role: "assistant",
        content: [
          ...(chance(0.4) ? [{ type: "reasoning", text: words(30) }] : []),
          ...(chance(0.3) ? [text(40)] : []),
          ...(chance(0.1) ? [{ type: "custom", kind: "acme.note", providerOptions: { acme: { note: words(3) } } }] : []),
          ...calls,
        ],
      });
      const results = calls.map(({ toolCallId, toolName }) => ({ type: "tool-result", toolCallId, toolName, output: output() }));
      messages.push({ role: "tool", content: results });
      if (chance(0.1)) {
        messages.push({ role: "tool", content: [{ type: "tool-approval-response", approvalId: "a", approved: true }] });
      }
    }
    if (turn % 2 === 0 || chance(0.8)) {
      messages.push({ role: "assistant", content: [text(200), ...(chance(0.2) ? [text(9)] : [])] });
    }
  }
  messages.push({ role: "user", content: [text(30)] });
  return messages;
}

async function transform(prompt: Message[], options: Partial<MiddlewareOptions>) {
  let fitted: Fitted<WireRequest> | undefined;
  const { transformParams } = brimfulMiddleware({ client, onFit: (each) => { fitted = each; }, ...options });
  const params = await transformParams!({ type: "generate", params: { prompt } as never, model: { modelId: "gpt-4o" } as never });
  return { prompt: params.prompt as unknown as Message[], fitted: fitted! };
}

const SEEDS = Array.from({ length: 12 }, (_, seed) => seed);

test.each(SEEDS)("prompt %i fits, as a subsequence by identity, with whole pairs", async (seed) => {
  const prompt = makePrompt(seed);
  const copy = structuredClone(prompt);
  const own = new Set(prompt);
  for (const policy of ["fit", undefined]) {
    for (const window of [1_500, 3_000, 6_000, 1_000_000]) {
      const conversation = `property-${seed}-${policy}-${window}`;
      const { prompt: sent, fitted } = await transform(prompt, { window, completion: 400, policy, conversation });
      expect(prompt).toEqual(copy);
      expectPairs(sent);
      // The texts are those that were counted.
      expect(translatePrompt(sent).messages).toEqual(fitted.request.messages);
      expect(fitted.tokens).toBeLessThanOrEqual(fitted.limit);
      const foreign = sent.filter((message) => !own.has(message));
      const ledgers = fitted.ledger === "" ? 0 : 1;
      expect(foreign.length).toBeLessThanOrEqual(fitted.shortened.length + ledgers);
      expect(policy === "fit" && ledgers > 0).toBe(false);
      const kept = sent.filter((message) => own.has(message));
      expect(kept).toEqual(prompt.filter((message) => kept.includes(message)));
      if (window === 1_000_000) {
        expect(sent).toBe(prompt);
      }
    }
  }
});

test("two conversations at once are as each alone", async () => {
  const both = [makePrompt(3), makePrompt(4)];
  const grow = (prompt: Message[], turns: number): Message[] => [
    ...prompt,
    ...Array.from({ length: turns }, (_, at): Message => ({ role: "user", content: [{ type: "text", text: `more ${at} ${"tea ".repeat(90)}` }] })),
  ];
  const run = async (name: string, prompts: Message[][]) => {
    const sent: Message[][][] = prompts.map(() => []);
    for (let turn = 0; turn < 5; turn += 1) {
      for (const [at, prompt] of prompts.entries()) {
        const options = { window: 3_000, completion: 400, conversation: `${name}-${at}` };
        sent[at]!.push((await transform(grow(prompt, turn), options)).prompt);
      }
    }
    return sent;
  };
  const together = await run("together", both);
  const alone = [...(await run("alone", [both[0]!])), ...(await run("other", [both[1]!]))];
  expect(together).toEqual(alone);
});
