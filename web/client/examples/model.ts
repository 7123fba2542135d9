/** A model that always says the same. */

import { MockLanguageModelV3 } from "ai/test";

export const model = new MockLanguageModelV3({
  modelId: "gpt-4o",
  doGenerate: {
    content: [{ type: "text", text: "Tea is a leaf." }],
    finishReason: { unified: "stop", raw: "stop" },
    usage: {
      inputTokens: { total: 7_127, noCache: 7_127, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 5, text: 5, reasoning: 0 },
    },
    warnings: [],
  },
});
