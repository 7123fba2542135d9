/**
 * Brimful for opencode and pi: `brimful serve` makes each request fit before the program sends it to the model.
 *
 * The program's own history never changes. If the server does not answer, a request is sent as it would be without it.
 * The only export is a plugin of opencode and an extension of pi: the program that calls it is known by what it passes.
 */

const PATIENCE = 2_000; // milliseconds; a fit takes a few dozen, the first one of a long history some hundreds
const MARGIN = 0.95; // of the prompt at which the program would summarize its history; its answer counts for that, too
const MAX_ANSWER = 32_000; // tokens; neither program asks for more
const PI_RESERVE = 16_384; // tokens that pi keeps free by default before it summarizes
const UNSEEN_SYSTEM = 8_000; // tokens; opencode shows a session's system prompt only after the first request
const MAX_RECALL = 4_000; // tokens of one result

export default function brimful(host, options) {
  const fitter = new Fitter(options ?? {});
  return typeof host.registerTool === "function" ? extendPi(host, fitter) : extendOpencode(host, fitter);
}

/** Asks the server to fit messages, and to recall what it left out. */
class Fitter {
  constructor({ url, apiKey, budget }) {
    const environment = globalThis.process?.env ?? {};
    this.url = String(url ?? environment.BRIMFUL_URL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.apiKey = apiKey ?? environment.BRIMFUL_API_KEY;
    this.budget = Number(budget ?? environment.BRIMFUL_BUDGET) || Infinity; // tokens of a request
    this.contexts = new Map(); // the newest context of each conversation
  }

  /**
   * Return `{ messages, tokens }`: the messages that fit, with the ledger, and the tokens of the whole request.
   * `system` always counts as one message, so that a handle means the same result in every request.
   */
  async fit(program, messages, { conversation, model, system, tools, window, limit }) {
    const { wires, owners, places } = translate(program, messages, system);
    const room = Math.floor(Math.min(limit ?? Infinity, this.budget));
    const fitted = await this.ask("fit", {
      request: { model, messages: wires, ...(tools.length > 0 ? { tools: tools.map(translateTool) } : {}) },
      conversation,
      overrides: { "tools.trim": false }, // the program sends its own tools
      ...(window ? { window: Math.ceil(window), completion: 1 } : {}), // room for the answer is left by the limit
      ...(Number.isFinite(room) ? { max_prompt_tokens: Math.max(room, 1) } : {}),
    });
    const kept = rebuild(program, messages, { owners, places }, fitted);
    this.contexts.set(conversation, fitted.id);
    return { messages: kept, tokens: fitted.tokens };
  }

  /** Return the text of a tool result. It tells the model if something is wrong. */
  async recall(conversation, { handle, query, max_tokens: tokens } = {}) {
    try {
      const context = this.contexts.get(conversation);
      if (context === undefined) {
        return "Nothing was left out of this conversation.";
      }
      const wanted = Math.min(Math.floor(Number(tokens)) || 1_000, MAX_RECALL);
      const named = String(handle ?? "").replaceAll(/^\W*recall\b|[\s"'`[\]…]/g, "");
      const search = new URLSearchParams({ handle: named, query: query ?? "", max_tokens: Math.max(wanted, 1) });
      const found = await this.ask(`contexts/${encodeURIComponent(context)}/recall?${search}`);
      const isPart = !found.whole && found.passages.length === 0;
      const note = isPart ? `\n[a part of ${found.size} tokens; pass a query or more max_tokens for the rest]` : "";
      return found.text ? found.text + note : "Nothing that was left out matches. Try other words, or go on.";
    } catch (error) {
      return `Error: ${error.message}`;
    }
  }

  async ask(path, body) {
    const { ok, status, data } = await this.send(path, body).catch((error) => {
      const reason = error.cause?.code ?? error.message;
      throw new Error(`no answer from ${this.url} (${reason}). Is \`brimful serve\` running?`);
    });
    if (!ok) {
      throw new Error(data?.error?.message ?? `the server answered with ${status}`);
    }
    return data;
  }

  async send(path, body) {
    const answer = await fetch(`${this.url}/brimful/v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        "content-type": "application/json",
        ...(this.apiKey ? { authorization: `Bearer ${this.apiKey}` } : {}),
      },
      body: JSON.stringify(body, (_, value) => (typeof value === "string" ? value.toWellFormed() : value)),
      signal: AbortSignal.timeout(PATIENCE),
    });
    const data = await answer.json().catch((error) => (answer.ok ? Promise.reject(error) : undefined));
    return { ok: answer.ok, status: answer.status, data };
  }
}

const RECALL = {
  description:
    'Return parts of this conversation that were shortened or left out: by handle, as in [… recall "r12"] or at the ' +
    "beginning of a line of the <history>, or by a query with words to search for.",
  properties: {
    handle: { type: "string", description: "Empty to search everything" },
    query: { type: "string", description: "Empty for all of the handle's text" },
    max_tokens: { type: "integer", description: `Usually 1000, at most ${MAX_RECALL}` },
  },
};

const describeFailure = (error) => `Brimful did not fit this request, which is sent as it is: ${error.message}`;

// -- messages of OpenAI's form, and back -------------------------------------------------------------------------------

const text = (value) => ({ type: "text", text: String(value ?? "") });
const image = (url) => ({ type: "image_url", image_url: { url } });

function translateTool({ name, description, parameters }) {
  return { type: "function", function: { name, description, parameters } };
}

/** A message of the assistant. All contents of ours are lists: a string in the answer is a message of the server's. */
function translateAssistant(texts, reasoning, calls) {
  return {
    role: "assistant",
    content: texts.length > 0 ? texts.map(text) : calls.length > 0 ? null : [text("")],
    ...(reasoning.length > 0 ? { reasoning_content: reasoning.join("\n") } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function translateCall(id, name, input) {
  return { id: String(id), type: "function", function: { name: String(name), arguments: JSON.stringify(input ?? {}) } };
}

/**
 * Return the messages in OpenAI's form as `wires`, with the index of the program's own message for each (`owners`), and
 * for each of the program's messages the positions of its wires (`places`).
 */
function translate(program, messages, system) {
  const wires = [{ role: "system", content: system }];
  const owners = [-1];
  const places = messages.map((message, index) =>
    program.translate(message).map((wire) => {
      owners.push(index);
      return wires.push(wire) - 1;
    }),
  );
  return { wires, owners, places };
}

/** Return the program's messages as they were fitted: its own objects where nothing changed. */
function rebuild(program, messages, { owners, places }, { request, positions, shortened, ledger }) {
  const { wires, ledgerOwner = messages.length } = readFitted(request.messages, positions, owners, ledger);
  const kept = [];
  let ledgerAt;
  let stays = true;
  messages.forEach((message, index) => {
    const own = places[index];
    const staying = own.filter((position) => wires.has(position));
    if (staying.length > 0 && staying.length < own.length) {
      throw new Error("the answer has a part of a message");
    }
    stays = own.length === 0 ? stays : staying.length > 0; // what the model does not see goes with what is before it
    ledgerAt = index === ledgerOwner ? kept.length : ledgerAt;
    if (stays) {
      const isShort = own.some((position) => shortened.includes(position));
      kept.push(isShort ? program.shorten(message, own.map((position) => wires.get(position))) : message);
    }
  });
  return ledger === "" ? kept : program.addLedger(kept, ledgerAt ?? kept.length, ledger);
}

/** Return the fitted wires by position, and the index of the program's message that follows the ledger. */
function readFitted(fitted, positions, owners, ledger) {
  const wires = new Map();
  let ledgerOwner;
  let hasLedger = ledger === "";
  for (const wire of fitted) {
    const position = positions[wires.size];
    if (wire.role !== "system" && typeof wire.content === "string") {
      hasLedger ||= wire.content === ledger;
      ledgerOwner = wire.content === ledger ? owners[position] : ledgerOwner;
    } else if (owners[position] === undefined || wires.has(position)) {
      throw new Error("the answer names messages that do not exist");
    } else {
      wires.set(position, withoutLowDetail(wire));
    }
  }
  if (wires.size !== positions.length || !hasLedger) {
    throw new Error("the answer lacks messages");
  }
  return { wires, ledgerOwner };
}

/** Neither program can ask for less of an image: if it does not fit in full, a line stands for it. */
function withoutLowDetail(wire) {
  const shown = (part) => (part.image_url?.detail === "low" ? text("[image, left out]") : part);
  return Array.isArray(wire.content) ? { ...wire, content: wire.content.map(shown) } : wire;
}

/** Return parts with the fitted texts; `toText` makes a part from the line that stands for an image. */
function shortenParts(parts, content, isSeen, toText) {
  const left = [...content];
  const short = parts.map((part) => {
    const wire = isSeen(part) ? left.shift() : undefined;
    return wire?.type === "text" ? toText(part, wire.text) : part;
  });
  if (left.length > 0) {
    throw new Error("the answer has parts that do not exist");
  }
  return short;
}

// -- opencode ----------------------------------------------------------------------------------------------------------

const opencode = {
  translate({ info, parts }) {
    if (info.role === "user") {
      const seen = parts.filter(isSeenOfUser);
      return seen.length > 0 ? [{ role: "user", content: seen.map(translateUserPart) }] : [];
    }
    if (isDiscarded(info, parts)) {
      return [];
    }
    const tools = parts.filter(isTool);
    const reasoning = parts.filter((part) => part.type === "reasoning").map((part) => part.text);
    const texts = parts.filter(isText).map((part) => part.text);
    const calls = tools.map((part) => translateCall(part.callID, part.tool, part.state.input));
    return [translateAssistant(texts, reasoning, calls), ...tools.map(translateToolPart)];
  },

  shorten(message, [wire, ...results]) {
    const toText = ({ id, sessionID, messageID }, line) => ({ id, sessionID, messageID, type: "text", text: line });
    if (message.info.role === "user") {
      return { ...message, parts: shortenParts(message.parts, wire.content, isSeenOfUser, toText) };
    }
    const shown = shortenParts(message.parts, wire.content ?? [], isText, (part, line) => ({ ...part, text: line }));
    const parts = shown.map((part) => (isTool(part) ? { ...part, state: shortenState(part, results.shift()) } : part));
    return { ...message, parts };
  },

  /** The ledger ends the user's message before it: a message of its own would need an id of opencode's. */
  addLedger(messages, at, ledger) {
    const isUsers = ({ info, parts }) => info.role === "user" && parts.some(isShownText);
    const before = messages.findLastIndex((message, index) => index < at && isUsers(message));
    const index = before >= 0 ? before : messages.findIndex(isUsers);
    if (index < 0) {
      throw new Error("no message of the user's is left for the ledger");
    }
    const { info, parts } = messages[index];
    const last = parts.findLastIndex(isShownText);
    const added = parts.with(last, { ...parts[last], text: `${parts[last].text}\n\n${ledger}` });
    return messages.with(index, { info, parts: added });
  },
};

const isText = (part) => part.type === "text";
const isTool = (part) => part.type === "tool";
const isShownText = (part) => isText(part) && !part.ignored && part.text !== "";
const isSeenOfUser = (part) =>
  isShownText(part) ||
  ["compaction", "subtask"].includes(part.type) ||
  (part.type === "file" && !["text/plain", "application/x-directory"].includes(part.mime));

/** Whether opencode sends nothing of an answer that failed. */
function isDiscarded({ error }, parts) {
  const isAborted = error?.name === "MessageAbortedError";
  return Boolean(error) && !(isAborted && parts.some(({ type }) => type !== "step-start" && type !== "reasoning"));
}

function translateUserPart(part) {
  switch (part.type) {
    case "file":
      return translateFile(part);
    case "compaction":
      return text("What did we do so far?");
    case "subtask":
      return text("The following tool was executed by the user");
    default:
      return text(part.text);
  }
}

function translateFile({ mime, url, filename }) {
  const file = { filename: filename ?? "file", file_data: url };
  return mime.startsWith("image/") ? image(url) : { type: "file", file };
}

function translateToolPart({ callID, state }) {
  const content = [text(readOutput(state)), ...readAttachments(state).map(translateFile)];
  return { role: "tool", tool_call_id: String(callID), content };
}

/** Return what the model sees of a call. */
function readOutput({ status, output, error, metadata, time }) {
  if (status === "completed") {
    return time?.compacted ? "[Old tool result content cleared]" : output;
  }
  const interrupted = metadata?.interrupted === true && typeof metadata.output === "string";
  return status === "error" ? (interrupted ? metadata.output : error) : "[Tool execution was interrupted]";
}

const readAttachments = ({ status, attachments, time }) =>
  status === "completed" && !time?.compacted ? (attachments ?? []) : [];

/** Return the state of a call with the fitted text, and without the images that are not there any more. */
function shortenState({ state }, { content: [output, ...media] }) {
  if (state.status !== "completed") {
    return { ...state, error: output.text, metadata: { ...state.metadata, interrupted: false } };
  }
  const lines = media.filter(isText).map((line) => `\n${line.text}`);
  const attachments = readAttachments(state).filter((_, at) => !isText(media[at]));
  return { ...state, output: [output.text, ...lines].join(""), ...(state.attachments ? { attachments } : {}) };
}

function extendOpencode({ client }, fitter) {
  const models = new Map();
  const sessions = new Map();
  let warnedFor; // the user's message whose run had a warning

  const findSession = (id) => {
    if (!sessions.has(id)) {
      sessions.set(id, { requests: 0, system: "", counted: undefined, uncounted: 0 });
    }
    return sessions.get(id);
  };

  /** Return the window of a model, and its tools. Those of MCP servers are not among them. */
  const findModel = async (provider, id) => {
    const key = `${provider}/${id}`;
    if (!models.has(key)) {
      const [{ data: known }, { data: tools }] = await within(
        Promise.all([client.config.providers(), client.tool.list({ query: { provider, model: id } })]),
      );
      const limit = known.providers.find((each) => each.id === provider)?.models[id]?.limit ?? {};
      models.set(key, { limit, tools: tools.map((tool) => ({ ...tool, name: tool.id })) });
    }
    return models.get(key);
  };

  const fit = async (messages) => {
    const { sessionID, model, modelID, providerID } = messages.findLast(({ info }) => info.role === "user").info;
    const session = findSession(sessionID);
    const id = model?.modelID ?? modelID;
    const { limit, tools } = await findModel(model?.providerID ?? providerID, id);
    session.uncounted = Math.max(session.uncounted, findUncounted(session.counted, messages));
    const isFirst = session.requests++ === 0; // the system prompt comes after it
    const reserve = session.uncounted + (isFirst ? UNSEEN_SYSTEM : 0);
    const most = Math.min(usablePrompt(limit), fitter.budget);
    const fitted = await fitter.fit(opencode, messages, {
      conversation: sessionID,
      model: id,
      system: isFirst ? "" : session.system,
      tools,
      window: limit.context,
      limit: most - Math.min(reserve, most / 2),
    });
    session.counted = isFirst ? undefined : { last: messages.at(-1).info.id, tokens: fitted.tokens };
    return fitted.messages;
  };

  const warn = async (run, error) => {
    if (warnedFor === run) {
      return;
    }
    warnedFor = run;
    const message = describeFailure(error);
    await client.app.log({ body: { service: "brimful", level: "warn", message } });
    await client.tui.showToast({ body: { title: "Brimful", message, variant: "warning" } });
  };

  return {
    tool: {
      recall: {
        description: RECALL.description,
        args: RECALL.properties,
        execute: (args, { sessionID }) => fitter.recall(sessionID, args),
      },
    },
    // A hook that throws ends the run, and `output.messages` counts only if it stays the same list.
    "experimental.chat.messages.transform": async (_, output) => {
      try {
        const fitted = await fit(output.messages);
        output.messages.splice(0, output.messages.length, ...fitted);
      } catch (error) {
        const run = output.messages.findLast?.(({ info }) => info?.role === "user")?.info.id;
        await within(warn(run, error)).catch(() => {});
      }
    },
    // Titles have a system prompt, too. It is shorter.
    "experimental.chat.system.transform": async (input, output) => {
      const system = output?.system?.join?.("\n") ?? "";
      if (input?.sessionID && system.length > findSession(input.sessionID).system.length) {
        findSession(input.sessionID).system = system;
      }
    },
  };
}

/** Return how long a prompt may be without opencode summarizing the history. */
function usablePrompt({ context, input, output }) {
  if (!context) {
    return Infinity;
  }
  const answer = Math.min(output || MAX_ANSWER, MAX_ANSWER);
  const usable = input ? input - Math.min(20_000, answer) : context - answer;
  return MARGIN * Math.max(usable, context / 2);
}

/** Return how many tokens the provider billed for the last request beyond those counted: tools of MCP servers. */
function findUncounted(counted, messages) {
  const at = counted === undefined ? -1 : messages.findIndex(({ info }) => info.id === counted.last);
  const tokens = at < 0 ? undefined : messages[at + 1]?.info.tokens;
  const billed = tokens ? tokens.input + (tokens.cache?.read ?? 0) + (tokens.cache?.write ?? 0) : 0;
  return billed > 0 ? billed - counted.tokens : 0;
}

function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("opencode did not answer")), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// -- pi ----------------------------------------------------------------------------------------------------------------

const pi = {
  translate(message) {
    const { role, content, stopReason } = message;
    if (role === "toolResult") {
      return [{ role: "tool", tool_call_id: String(message.toolCallId), content: content.map(translatePiPart) }];
    }
    if (role !== "assistant") {
      const parts = readPiContent(message);
      return parts.length > 0 ? [{ role: "user", content: parts.map(translatePiPart) }] : [];
    }
    if (stopReason === "error" || stopReason === "aborted") {
      return []; // pi does not send it either
    }
    const texts = content.filter(isText).map((part) => part.text);
    const reasoning = content.filter((part) => part.type === "thinking").map((part) => part.thinking);
    const asked = content.filter((part) => part.type === "toolCall");
    const calls = asked.map((call) => translateCall(call.id, call.name, call.arguments));
    return [translateAssistant(texts, reasoning, calls)];
  },

  shorten(message, [wire]) {
    const toText = (_, line) => text(line);
    switch (message.role) {
      case "assistant": {
        const change = (part, line) => ({ ...part, text: line });
        return { ...message, content: shortenParts(message.content, wire.content ?? [], isText, change) };
      }
      case "toolResult":
        return { ...message, content: shortenParts(message.content, wire.content, () => true, toText) };
      default: {
        const content = shortenParts(readPiContent(message), wire.content, () => true, toText);
        return { role: "user", content, timestamp: message.timestamp };
      }
    }
  },

  addLedger(messages, at, ledger) {
    const timestamp = (messages[at - 1] ?? messages[at])?.timestamp ?? 0;
    return messages.toSpliced(at, 0, { role: "user", content: [text(ledger)], timestamp });
  },
};

const translatePiPart = (part) =>
  part.type === "image" ? image(`data:${part.mimeType};base64,${part.data}`) : text(part.text);

/** Return what pi makes of a message that is neither the assistant's nor a tool's. */
function readPiContent({ role, content, summary, command, output, exitCode, excludeFromContext }) {
  switch (role) {
    case "bashExecution": {
      const code = exitCode ? `\n\nCommand exited with code ${exitCode}` : "";
      const shown = output ? `\`\`\`\n${output}\n\`\`\`` : "(no output)";
      return excludeFromContext ? [] : [text(`Ran \`${command}\`\n${shown}${code}`)];
    }
    case "branchSummary":
      return [text(`The following is a summary of a branch that this conversation came back from:\n\n${summary}`)];
    case "compactionSummary":
      return [text(`The conversation history before this point was compacted into this summary:\n\n${summary}`)];
    default:
      return typeof content === "string" ? [text(content)] : (content ?? []);
  }
}

function extendPi(host, fitter) {
  let hasWarned = false;

  const fit = async (messages, context) => {
    const { id, contextWindow: window, maxTokens } = context.model;
    const active = new Set(host.getActiveTools());
    const reserve = Math.max(PI_RESERVE, Math.min(maxTokens || 0, MAX_ANSWER));
    const fitted = await fitter.fit(pi, messages, {
      conversation: context.sessionManager.getSessionId(),
      model: id,
      system: context.getSystemPrompt(),
      tools: host.getAllTools().filter(({ name }) => active.has(name)),
      window,
      limit: window ? MARGIN * Math.max(window - reserve, window / 2) : undefined,
    });
    return fitted.messages;
  };

  const warn = (error, context) => {
    if (!hasWarned && context.hasUI) {
      context.ui.notify(describeFailure(error), "warning");
    } else if (!hasWarned) {
      console.warn(describeFailure(error));
    }
    hasWarned = true;
  };

  host.on("agent_start", () => {
    hasWarned = false;
  });
  host.on("context", async ({ messages }, context) => {
    try {
      return { messages: await fit(messages, context) };
    } catch (error) {
      warn(error, context);
    }
  });
  host.registerTool({
    name: "recall",
    label: "Recall",
    description: RECALL.description,
    parameters: { type: "object", properties: RECALL.properties },
    execute: async (_id, args, _signal, _onUpdate, context) => {
      const found = await fitter.recall(context.sessionManager.getSessionId(), args);
      return { content: [text(found)], details: {} };
    },
  });
}
