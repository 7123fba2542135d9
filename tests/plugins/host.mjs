/**
 * Calls the plugin as opencode and pi do, and prints what became of the messages.
 *
 * Each line of standard input is JSON, and is answered with one line: `plugin` (a file), `program`, `environment`,
 * `options`, `host` (what the program knows), `messages`, `rounds` (after how many of the messages the model is asked)
 * and `recalls` (arguments of the tool, after the last round). The plugin is loaded again for each line.
 */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

async function runOpencode(brimful, { options, host, messages, rounds, recalls }, { results, warnings }) {
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
  return callEach(recalls, (args) => hooks.tool.recall.execute(args, { sessionID: host.session }));
}

async function runPi(brimful, { host, messages, rounds, recalls }, { results }) {
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
  const { execute } = tools.get("recall");
  return callEach(recalls, async (args) => (await execute("call_1", args, undefined, undefined, context)).content[0].text);
}

/** Return the results of calls, one after the other: each has two seconds, and many at once may need more. */
async function callEach(all, call) {
  const results = [];
  for (const args of all) {
    results.push(await call(args));
  }
  return results;
}

async function run({ plugin, environment, ...scenario }, number) {
  const done = { results: [], warnings: [] };
  process.env = environment;
  console.warn = (text) => done.warnings.push(text);
  const { default: brimful, ...others } = await import(`${pathToFileURL(plugin).href}?${number}`);
  const recalled = await { opencode: runOpencode, pi: runPi }[scenario.program](brimful, scenario, done);
  return { ...done, recalled, exports: Object.keys(others) };
}

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line), number++)));
}
