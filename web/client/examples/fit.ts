import { Brimful } from "@brimful/client";
import { brimfulMiddleware } from "@brimful/client/ai";
import { generateText, wrapLanguageModel, type ModelMessage } from "ai";
import { model } from "./model.js"; // such as openai("gpt-4o")

const client = new Brimful({ baseURL: process.env["BRIMFUL_URL"] });
const fitting = brimfulMiddleware({ client, window: 8_192, completion: 1_000, onFit: (fit) => console.log(fit.positions.length) });
const fitted = wrapLanguageModel({ model, middleware: fitting });

const messages: ModelMessage[] = [];
for (let turn = 0; turn < 400; turn += 1) {
  messages.push({ role: "user", content: `${turn}. ${"Tell me about tea. ".repeat(9)}` });
}
const { text } = await generateText({ model: fitted, messages, providerOptions: { brimful: { conversation: "thread-7" } } });
console.log(text);
