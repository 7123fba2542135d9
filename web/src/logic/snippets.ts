/** Commands and programs to copy: a request to a model's server, or a call of this server's API. */

export interface Endpoint {
  wire: string;
  url: string;
  key: string;
}

/** The URL that a request goes to; empty if its format is not sent as JSON. */
function target({ wire, url }: Endpoint, model: string): string {
  const base = url || "$BASE_URL";
  switch (wire) {
    case "openai":
      return `${base}/chat/completions`;
    case "responses":
      return `${base}/responses`;
    case "anthropic":
      return `${base}/v1/messages`;
    case "gemini":
      return `${base}/models/${model}:generateContent`;
    case "ollama":
      return `${base}/api/chat`;
    default:
      return "";
  }
}

/** Headers with the API key, in which `key` stands for how to read it. */
function headers({ wire, key }: Endpoint, read: (name: string) => string): [string, string][] {
  if (key === "") return [];
  if (wire === "anthropic") return [["x-api-key", read(key)], ["anthropic-version", "2023-06-01"]];
  if (wire === "gemini") return [["x-goog-api-key", read(key)]];
  return [["authorization", `Bearer ${read(key)}`]];
}

/** A request as a curl command; empty if it cannot be one. */
export function requestCurl(endpoint: Endpoint, model: string, request: unknown): string {
  const url = target(endpoint, model);
  if (url === "") return "";
  const lines = [`curl "${url}"`, `-H "content-type: application/json"`];
  for (const [name, value] of headers(endpoint, (key) => `$${key}`)) lines.push(`-H "${name}: ${value}"`);
  lines.push(`-d ${quoted(JSON.stringify(request))}`);
  return lines.join(" \\\n  ");
}

/** A request as a Python program that needs only the standard library; empty if it cannot be one. */
export function requestPython(endpoint: Endpoint, model: string, request: unknown): string {
  const url = target(endpoint, model);
  if (url === "") return "";
  const address = url.startsWith("$BASE_URL") ? `os.environ["BASE_URL"] + ${python(url.slice("$BASE_URL".length))}` : python(url);
  const all: [string, string][] = [["content-type", "application/json"], ...headers(endpoint, (key) => `{os.environ["${key}"]}`)];
  return [
    "import json",
    "import os",
    "import urllib.request",
    "",
    `body = ${python(request)}`,
    `headers = {${all.map(([name, value]) => `${python(name)}: ${value.includes("{") ? `f'${value}'` : python(value)}`).join(", ")}}`,
    `request = urllib.request.Request(${address}, json.dumps(body).encode(), headers)`,
    "print(urllib.request.urlopen(request).read().decode())",
    "",
  ].join("\n");
}

/** A call of this server's API as a curl command. */
export function apiCurl(url: string, needsKey: boolean): string {
  return `curl -sS ${quoted(url)}${needsKey ? ' -H "authorization: Bearer $BRIMFUL_API_KEY"' : ""}`;
}

/** A text in single quotes for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A JSON value as a Python expression. */
export function python(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, each]) => `${python(name)}: ${python(each)}`).join(", ")}}`;
  return JSON.stringify(value); // strings of JSON are strings of Python
}

/** A body posted to this server's API, as a curl command. */
export function postCurl(url: string, body: unknown, needsKey: boolean): string {
  return `${apiCurl(url, needsKey)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body))}`;
}
