import { describe, expect, it } from "vitest";

import { apiCurl, postCurl, python, requestCurl, requestPython } from "../src/logic/snippets";

const OPENAI = { wire: "openai", url: "https://api.openai.com/v1", key: "OPENAI_API_KEY" };
const REQUEST = { model: "gpt-4o", messages: [{ role: "user", content: "It's \"on\"\n$HOME é" }], stream: false, stop: null };

describe("a request", () => {
  it("is copied as curl, quoted for a shell", () => {
    const text = requestCurl(OPENAI, "gpt-4o", { a: "It's" });
    expect(text).toBe(
      'curl "https://api.openai.com/v1/chat/completions" \\\n  -H "content-type: application/json" \\\n' +
      `  -H "authorization: Bearer $OPENAI_API_KEY" \\\n  -d '{"a":"It'\\''s"}'`,
    );
  });
  it("is copied as Python", () => {
    const text = requestPython(OPENAI, "gpt-4o", REQUEST);
    expect(text).toContain('body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "It\'s \\"on\\"\\n$HOME é"}], "stream": False, "stop": None}');
    expect(text).toContain(`"authorization": f'Bearer {os.environ["OPENAI_API_KEY"]}'`);
  });
  it("goes where its format and its server want it", () => {
    expect(requestCurl({ wire: "anthropic", url: "https://api.anthropic.com", key: "K" }, "m", {})).toMatch(/\/v1\/messages"[^]*x-api-key: \$K[^]*anthropic-version/);
    expect(requestCurl({ wire: "gemini", url: "https://g/v1beta", key: "K" }, "m", {})).toMatch(/\/models\/m:generateContent"[^]*x-goog-api-key: \$K/);
    expect(requestCurl({ wire: "ollama", url: "http://localhost:11434", key: "" }, "m", {})).not.toContain("authorization");
    expect(requestCurl({ wire: "openai", url: "", key: "K" }, "m", {})).toContain('"$BASE_URL/chat/completions"');
    expect(requestPython({ wire: "openai", url: "", key: "K" }, "m", {})).toContain('os.environ["BASE_URL"] + "/chat/completions"');
    expect(requestCurl({ wire: "text", url: "", key: "K" }, "m", {})).toBe("");
  });
  it("of this server names its key only if it needs one", () => {
    expect(apiCurl("http://x/a", false)).toBe("curl -sS 'http://x/a'");
    expect(apiCurl("http://x/a", true)).toContain("$BRIMFUL_API_KEY");
  });
  it("posts a body to this server", () => {
    expect(postCurl("http://x/a", { a: "b c" }, false)).toBe(`curl -sS 'http://x/a' -H 'content-type: application/json' -d '{"a":"b c"}'`);
  });
  it("has values of JSON as values of Python", () => {
    expect(python([true, null, 1.5, { a: [] }])).toBe('[True, None, 1.5, {"a": []}]');
  });
});
