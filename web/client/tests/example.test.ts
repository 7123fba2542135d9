import { expect, test, vi } from "vitest";

test("the example of the docs page runs", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  await import("../examples/fit.js");
  const [[kept], [text]] = log.mock.calls as [[number], [string]];
  expect(kept).toBeGreaterThan(20);
  expect(kept).toBeLessThan(400);
  expect(text).toBe("Tea is a leaf.");
});
