import { expect, test } from "vitest";

import { Brimful, BrimfulError } from "../src/client.js";
import { client, shown } from "./world.js";

const MESSAGES = Array.from({ length: 81 }, (_, at) => ({
  role: at % 2 === 0 ? "user" : "assistant",
  content: `Turn ${at}. ${"tea ".repeat(60)}`,
}));

test("a request fits, and its usage is recorded", async () => {
  const request = { model: "gpt-4o", messages: MESSAGES };
  const fitted = await client.fit(request, { window: 2_000, completion: 300, conversation: "plain", pin: [5] });
  expect(fitted.positions).toContain(5);
  expect(fitted.request.messages).toEqual(fitted.positions.map((at) => MESSAGES[at]));
  expect(fitted.tokens).toBeLessThanOrEqual(fitted.limit);
  const usage = { prompt: fitted.tokens, cached: 0, completion: 9, reasoning: 2 };
  await client.reportUsage(fitted.id, { ...usage, finish: "stop", seconds: 0.5 });
  const context = await shown(fitted.id);
  expect(context.room).toBe("plain");
  expect(context.answers.map((answer) => answer.usage)).toEqual([usage]);
});

test("options have the names of the API", async () => {
  const fitted = await client.fit({ model: "gpt-4o", messages: MESSAGES }, { maxPromptTokens: 900, minTokens: 50 });
  expect(fitted.tokens).toBeLessThanOrEqual(900);
});

test("errors of the server are errors here", async () => {
  const error = await client.fit({ model: "gpt-4o", messages: MESSAGES }, { policy: "nope" }).catch((each) => each);
  expect(error).toBeInstanceOf(BrimfulError);
  expect(error).toMatchObject({ status: 400, message: expect.stringContaining("nope") });
  const overflow = await client
    .fit({ model: "gpt-4o", messages: MESSAGES }, { window: 400, completion: 100, pin: [0, 1, 2, 3, 4, 5, 6] })
    .catch((each) => each);
  expect(overflow).toMatchObject({ status: 400, code: "context_length_exceeded" });
  const unknown = await client.reportUsage("ctx-none", { prompt: 1 }).catch((each) => each);
  expect(unknown).toMatchObject({ status: 404 });
});

test("what is not an answer of Brimful is an error, too", async () => {
  const page = async () => new Response("<html>", { status: 502, headers: { "retry-after": "3" } });
  const other = new Brimful({ baseURL: "http://127.0.0.1:1/", apiKey: "bf-1", fetch: page });
  expect(other.baseURL).toBe("http://127.0.0.1:1");
  const error = await other.fit({}).catch((each) => each);
  expect(error).toMatchObject({ status: 502, code: null, retryAfter: 3, message: expect.stringContaining("<html>") });
});

test("the key is sent", async () => {
  let sent = new Headers();
  const listening = async (_: unknown, init?: RequestInit) => {
    sent = new Headers(init?.headers);
    return Response.json({});
  };
  await new Brimful({ apiKey: "bf-1", headers: { "x-more": "1" }, fetch: listening }).fit({});
  expect([sent.get("x-brimful-key"), sent.get("x-more")]).toEqual(["bf-1", "1"]);
});
