import { defineConfig } from "vite";

// For development: run `brimful serve` in one shell and `npm run dev` in another.
const SERVER = "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    outDir: "../src/brimful/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a `data:` URL would need an exception in the Content-Security-Policy
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: { "/brimful": SERVER, "/openapi.json": SERVER } },
});
