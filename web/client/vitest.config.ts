import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (name: string) => fileURLToPath(new URL(`src/${name}.ts`, import.meta.url));

export default defineConfig({
  test: { testTimeout: 120_000 }, // milliseconds: the server and other tests may share two processors
  resolve: {
    alias: [
      { find: "@brimful/client/ai", replacement: source("ai") },
      { find: "@brimful/client", replacement: source("client") },
    ],
  },
});
