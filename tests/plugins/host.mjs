/**
 * Calls the plugin as opencode and pi do, and prints what became of the messages.
 *
 * Standard input is JSON: `plugin` (a file), `program`, `options`, `host` (what the program knows), `messages`, `rounds`
 * (after how many of the messages the model is asked) and `recalls` (arguments of the tool, after the last round).
 */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { plugin, program, options, host, messages, rounds, recalls } = JSON.parse(readFileSync(0, "utf8"));
const { default: brimful, ...others } = await import(pathToFileURL(plugin).href);
const warnings = [];
const results = [];
console.warn = (text) => warnings.push(text);

async function runOpencode() {
  const client = {
    config: { providers: async () => ({ data: { providers: host.providers } }) },
    tool: { list: async () => ({ data: host.tools }) },
    app: { log: async ({ body }) => warnings.push(body.message) },
    tui: { showToast: async () => {} },
  };
  const hooks = await brimful({ client, directory: "/", worktree: "/" }, options);
  for (const round of rounds) {
    const list = structuredClone(messages.slice(0, round));
    const output = { messages: list };
    const started = performance.now();
    await hooks["experimental.chat.messages.transform"]({}, output);
    results.push({ messages: list, isSameList: output.messages === list, seconds: (performance.now() - started) / 1000 });
    const input = { sessionID: host.session, model: {} };
    await hooks["experimental.chat.system.transform"](input, { system: ["Write a title."] });
    await hooks["experimental.chat.system.transform"](input, { system: [host.system] });
  }
  const execute = (args) => hooks.tool.recall.execute(args, { sessionID: host.session });
  return Promise.all((recalls ?? []).map(execute));
}

async function runPi() {
  const handlers = new Map();
  const tools = new Map();
  brimful({
    on: (event, handler) => handlers.set(event, handler),
    registerTool: (tool) => tools.set(tool.name, tool),
    getActiveTools: () => host.tools.map((tool) => tool.name),
    getAllTools: () => [...host.tools, ...tools.values()],
  });
  const context = {
    hasUI: false,
    model: host.model,
    sessionManager: { getSessionId: () => host.session },
    getSystemPrompt: () => host.system,
  };
  handlers.get("agent_start")({}, context);
  for (const round of rounds) {
    const list = structuredClone(messages.slice(0, round));
    const started = performance.now();
    const changed = await handlers.get("context")({ type: "context", messages: list }, context);
    const seconds = (performance.now() - started) / 1000;
    results.push({ messages: changed?.messages ?? list, isSameList: true, seconds });
  }
  const execute = (args) => tools.get("recall").execute("call_1", args, undefined, undefined, context);
  return (await Promise.all((recalls ?? []).map(execute))).map(({ content }) => content[0].text);
}

const recalled = await { opencode: runOpencode, pi: runPi }[program]();
console.log(JSON.stringify({ results, warnings, recalled, exports: Object.keys(others) }));
