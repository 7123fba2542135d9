import { expect, test } from "vitest";

import type { ApiKey, LimitList } from "../src/api/admin";
import { defaultLimits, keyBounds, keyState, limitRows } from "../src/logic/admin";

const KEY: ApiKey = {
  id: "5f1c", name: "bot", scopes: ["chat"], created: 1, revoked: null, expires: null, used: null, user: null, models: null, policies: null,
};

test("a key is active, expired or revoked", () => {
  expect(keyState(KEY, 100)).toBe("active");
  expect(keyState({ ...KEY, expires: 101 }, 100)).toBe("active");
  expect(keyState({ ...KEY, expires: 100 }, 100)).toBe("expired");
  expect(keyState({ ...KEY, expires: 100, revoked: 50 }, 100)).toBe("revoked");
});

test("bounds of a key are words", () => {
  expect(keyBounds(KEY)).toBe("none");
  expect(keyBounds({ ...KEY, user: "ada", models: ["gpt-4o*", "o3"], policies: ["fit"] })).toBe("for ada; models gpt-4o*, o3; policies fit");
});

test("each limit is a row with what was used of it", () => {
  const list: LimitList = {
    limits: [
      { kind: "user", name: "ada", limits: { tokens_per_day: 2000, dollars_per_month: null }, used: { day: { requests: 3, tokens: 500, dollars: 0.1 } } },
      { kind: "user", name: "", limits: { requests_per_minute: 5 }, used: {} },
    ],
    next: null,
    defaults: { key: {}, user: {} },
  };
  expect(limitRows(list)).toEqual([
    { who: "user ada", limit: "tokens per day", most: "2,000", used: "500", share: 0.25 },
    { who: "user ada", limit: "dollars per month", most: "no limit", used: "–", share: null },
    { who: "user (removed)", limit: "requests per minute", most: "5", used: "–", share: null },
  ]);
});

test("defaults are a sentence", () => {
  expect(defaultLimits({ tokens_per_day: null })).toBe("");
  expect(defaultLimits({ dollars_per_day: 5, requests_per_minute: 60, tokens_per_day: null })).toBe("$5.00 per day, 60 requests per minute");
});
