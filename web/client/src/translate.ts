/**
 * Prompts of the AI SDK in OpenAI's form, which is only counted, and the way back to the SDK's own objects.
 *
 * The types are those parts of the SDK's `LanguageModelV3Prompt` and `LanguageModelV4Prompt` that are read here.
 */

import type { Fitted } from "./client.js";

/** A part of a message: text, file, reasoning, tool-call, tool-result and others. */
export interface Part {
  type: string;
  [field: string]: unknown;
}

/** A message of the SDK. */
export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string | Part[];
}

/** A message of OpenAI's chat completions. */
export interface WireMessage {
  role: string;
  content: string | Part[] | null;
  [field: string]: unknown;
}

export interface WireRequest {
  model: string;
  messages: WireMessage[];
  tools?: object[];
  response_format?: object;
}

/** A translated prompt: for each of its messages the indices of its wire messages, and which belong together. */
export interface Translated {
  messages: WireMessage[];
  indices: number[][];
  ties: number[][];
}

export function translatePrompt(prompt: readonly Message[]): Translated {
  const messages: WireMessage[] = [];
  const indices = prompt.map((message) => {
    const first = messages.length;
    messages.push(...translateMessage(message));
    return messages.slice(first).map((_, at) => first + at);
  });
  return { messages, indices, ties: indices.filter((each) => each.length > 1) };
}

function translateMessage(message: Message): WireMessage[] {
  const parts = partsOf(message);
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "user":
      return [{ role: "user", content: translateContent(parts) }];
    case "assistant":
      return [translateAssistant(parts)];
    case "tool":
      return parts.filter(isResult).map((part) => ({
        role: "tool",
        tool_call_id: String(part["toolCallId"]),
        content: translateOutput(part["output"] as Part),
      }));
  }
}

/** Calls that the provider ran itself have their results in the same message. Both are counted as texts. */
function translateAssistant(parts: Part[]): WireMessage {
  const shown = parts.filter(isContent);
  const calls = parts.filter((part) => part.type === "tool-call" && part["providerExecuted"] !== true);
  const reasoning = parts.filter((part) => part.type === "reasoning").map((part) => String(part["text"]));
  return {
    role: "assistant",
    content: shown.length > 0 ? translateContent(shown) : calls.length > 0 ? null : "",
    ...(reasoning.length > 0 ? { reasoning_content: reasoning.join("\n") } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(translateCall) } : {}),
  };
}

function translateCall(part: Part): object {
  const input = part["input"];
  return {
    id: String(part["toolCallId"]),
    type: "function",
    function: { name: String(part["toolName"]), arguments: typeof input === "string" ? input : toJson(input) },
  };
}

/** Text is a string if there is nothing else, as most messages are. */
function translateContent(parts: Part[]): string | Part[] {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? String(only["text"]) : parts.map(translatePart);
}

function translatePart(part: Part): Part {
  switch (part.type) {
    case "text":
      return text(String(part["text"]));
    case "file":
    case "reasoning-file":
    case "file-data":
    case "file-url":
    case "image-data":
    case "image-url":
      return translateFile(part);
    case "tool-call":
      return text(toJson({ name: part["toolName"], input: part["input"] }));
    case "tool-result":
      return text(toJson(part["output"]));
    default:
      return text(toJson(part["providerOptions"] ?? {}));
  }
}

/** In version 3 of the SDK's interface, `data` is bytes, base64 or a URL; in version 4, it says which. */
function translateFile(part: Part): Part {
  const data = part["data"] ?? part["url"];
  const tagged = isTagged(data) ? data : undefined;
  const value = tagged === undefined ? data : (tagged["data"] ?? tagged["url"] ?? tagged["text"] ?? tagged["reference"]);
  const media = String(part["mediaType"] ?? (part.type.startsWith("image") ? "image" : ""));
  if (tagged?.type === "text") {
    return text(String(value));
  }
  const url = fileUrl(value, media);
  if (media.startsWith("image") && url !== undefined) {
    const detail = imageDetail(part);
    return { type: "image_url", image_url: { ...(detail === undefined ? {} : { detail }), url } };
  }
  if (media.startsWith("audio") && url?.startsWith("data:")) {
    const format = media.split("/")[1] ?? "wav";
    return { type: "input_audio", input_audio: { data: url.slice(url.indexOf(",") + 1), format } };
  }
  if (media.startsWith("text") && value instanceof Uint8Array) {
    return text(new TextDecoder().decode(value));
  }
  const filename = String(part["filename"] ?? "file");
  return { type: "file", file: url === undefined ? { filename, file_id: toJson(value) } : { filename, file_data: url } };
}

function imageDetail(part: Part): unknown {
  return (part["providerOptions"] as Record<string, Record<string, unknown>> | undefined)?.["openai"]?.["imageDetail"];
}

function fileUrl(value: unknown, media: string): string | undefined {
  if (value instanceof URL) {
    return value.href;
  }
  const base64 = value instanceof Uint8Array ? toBase64(value) : value;
  if (typeof base64 !== "string") {
    return undefined;
  }
  const isUrl = /^(https?|data):/.test(base64);
  return isUrl ? base64 : `data:${media.includes("/") ? media : `${media}/*`};base64,${base64}`;
}

function toBase64(bytes: Uint8Array): string {
  const step = 0x8000; // bytes; a call cannot have many more arguments
  const pieces = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) =>
    String.fromCharCode(...bytes.subarray(at * step, (at + 1) * step)),
  );
  return btoa(pieces.join(""));
}

function translateOutput(output: Part): string | Part[] {
  const value = output["value"];
  switch (output.type) {
    case "text":
    case "error-text":
      return String(value);
    case "content":
      return translateContent(value as Part[]);
    case "execution-denied":
      return String(output["reason"] ?? "execution denied");
    default:
      return toJson(value);
  }
}

/**
 * Return a prompt as it was fitted: the SDK's own messages where they stay, copies where they were shortened, and the
 * ledger of an agent's steps as one message.
 */
export function rebuildPrompt<M extends Message>(
  prompt: readonly M[],
  translated: Translated,
  fitted: Fitted<WireRequest>,
): M[] {
  const sent = fitted.request.messages;
  const ledgerAt = fitted.ledger === "" ? -1 : sent.findIndex((message) => message.content === fitted.ledger);
  const kept = sent.filter((_, at) => at !== ledgerAt);
  const fittedAt = new Map(fitted.positions.map((position, at) => [position, kept[at]]));
  const shortened = new Set(fitted.shortened);
  const rebuilt: M[] = [];
  let wires = 0; // of `sent`, so far
  let previousStays = true;
  for (const [at, message] of prompt.entries()) {
    const indices = translated.indices[at] ?? [];
    const staying = indices.filter((each) => fittedAt.has(each));
    // A message of which nothing is counted, such as an approval, belongs to the one before it.
    previousStays = indices.length === 0 ? previousStays : staying.length > 0;
    if (!previousStays) {
      continue;
    }
    if (wires === ledgerAt) {
      rebuilt.push({ role: "user", content: [text(fitted.ledger)] } as Message as M);
      wires += 1;
    }
    wires += staying.length;
    const isShort = staying.some((each) => shortened.has(each));
    rebuilt.push(isShort ? shorten(message, staying.map((each) => fittedAt.get(each)!)) : message);
  }
  return rebuilt;
}

/** Return a copy of a message with the texts of its fitted wire messages. */
function shorten<M extends Message>(message: M, wires: WireMessage[]): M {
  const parts = partsOf(message);
  const [wire] = wires;
  switch (message.role) {
    case "system":
      return { ...message, content: wire?.content };
    case "user":
      return { ...message, content: shortenContent(parts, wire?.content ?? "") };
    case "assistant": {
      const shown = shortenContent(parts.filter(isContent), wire?.content ?? "");
      const first = Math.max(parts.findIndex(isContent), 0);
      return { ...message, content: [...parts.slice(0, first), ...shown, ...parts.slice(first).filter(isOther)] };
    }
    case "tool": {
      const byCall = new Map(wires.map((each) => [each["tool_call_id"], each.content ?? ""]));
      const content = parts.map((part) => {
        const fitted = byCall.get(part["toolCallId"] as string);
        const output = part["output"] as Part;
        return !isResult(part) || fitted === undefined || same(fitted, translateOutput(output))
          ? part
          : { ...part, output: shortenOutput(output, fitted) };
      });
      return { ...message, content };
    }
  }
}

function shortenOutput(output: Part, fitted: string | Part[]): Part {
  if (output.type === "content") {
    return { ...output, value: shortenContent(output["value"] as Part[], fitted) };
  }
  const value = typeof fitted === "string" ? fitted : toJson(fitted);
  return { ...output, type: output.type.startsWith("error") ? "error-text" : "text", value };
}

/** Return the SDK's own parts where they are unchanged, and copies or new texts elsewhere. */
function shortenContent(parts: Part[], content: string | Part[]): Part[] {
  const wires = typeof content === "string" ? [text(content)] : content;
  const left = parts.map((part) => ({ part, wire: translatePart(part) }));
  return wires.map((wire) => {
    const at = left.findIndex((each) => same(each.wire, wire) || (isImage(wire) && imageUrl(each.wire) === imageUrl(wire)));
    if (at >= 0) {
      const [found] = left.splice(0, at + 1).slice(-1);
      return same(found!.wire, wire) ? found!.part : lowDetail(found!.part);
    }
    const next = left.findIndex((each) => each.part.type === "text");
    const [own] = next === 0 ? left.splice(0, 1) : [];
    return own === undefined ? text(String(wire["text"] ?? "")) : { ...own.part, text: String(wire["text"] ?? "") };
  });
}

function isImage(wire: Part): boolean {
  return wire.type === "image_url";
}

function imageUrl(wire: Part): string | undefined {
  return (wire["image_url"] as { url: string } | undefined)?.url;
}

/** Return a part with the detail that `fit` gave its image. */
function lowDetail(part: Part): Part {
  const options = (part["providerOptions"] ?? {}) as Record<string, object>;
  return { ...part, providerOptions: { ...options, openai: { ...options["openai"], imageDetail: "low" } } };
}

function partsOf(message: Message): Part[] {
  return typeof message.content === "string" ? [text(message.content)] : message.content;
}

function isContent(part: Part): boolean {
  return !["reasoning", "tool-approval-request"].includes(part.type) &&
    !(part.type === "tool-call" && part["providerExecuted"] !== true);
}

function isOther(part: Part): boolean {
  return !isContent(part);
}

function isResult(part: Part): boolean {
  return part.type === "tool-result";
}

function isTagged(value: unknown): value is Part {
  return typeof value === "object" && value !== null && "type" in value && !(value instanceof URL);
}

function text(value: string): Part {
  return { type: "text", text: value };
}

function same(one: unknown, other: unknown): boolean {
  return toJson(one) === toJson(other);
}

function toJson(value: unknown): string {
  return JSON.stringify(value) ?? "";
}
