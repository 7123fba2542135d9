import { describe, expect, it } from "vitest";

import { ago, clockTimes, evidence, isoTime, formatTime, formText, money, ordinal, percent, plural, reasonText, relevance, relevanceText, score, seconds, short, signed, whole } from "../src/logic/format";

describe("formatted numbers", () => {
  it.each([[0, "0"], [950, "950"], [12_345, "12.3k"], [999_949, "1000k"], [1_048_576, "1.05M"], [-2048, "-2.05k"]])("shortens %d to %s", (value, text) => {
    expect(short(value)).toBe(text);
  });
  it.each([[1, "1st"], [2, "2nd"], [3, "3rd"], [11, "11th"], [112, "112th"], [52, "52nd"], [1011, "1,011th"], [1023, "1,023rd"]])("shows place %d as %s", (place, text) => {
    expect(ordinal(place)).toBe(text);
  });
  it("groups thousands", () => expect(whole(1234567.4)).toBe("1,234,567"));
  it.each([[0, "0\u00a0%"], [0.0004, "<0.1\u00a0%"], [0.0456, "4.6\u00a0%"], [0.1234, "12.3\u00a0%"], [1, "100\u00a0%"], [NaN, "–"]])("formats %d as %s", (share, text) => {
    expect(percent(share)).toBe(text);
  });
  it.each([[0, "very unlikely to help"], [0.0099, "very unlikely to help"], [0.01, "1\u00a0%"], [0.714, "71\u00a0%"], [0.9991, "over 99\u00a0%"], [1, "100\u00a0%"]])("shows a relevance of %d as %s", (value, text) => {
    expect(relevance(value)).toBe(text);
    expect(relevanceText(value)).toBe(text.startsWith("very") ? text : `relevance ${text}`);
  });
  it("shows the place of what is very unlikely to help, and the last place that got in", () => {
    expect(relevance(0.0001, { rank: 49, total: 55, cut: 12 })).toBe("very unlikely to help, 49th of 55, cut at 12");
    expect(relevance(0.0001, { rank: 3, total: 1055, cut: 12 })).toBe("very unlikely to help, 3rd of 1,055");
    expect(relevance(0.0001, { rank: 2, total: 2, cut: 0 })).toBe("very unlikely to help, 2nd of 2");
    expect(relevance(0.0001, { rank: 0, total: 55, cut: 12 })).toBe("very unlikely to help");
    expect(relevance(0.5, { rank: 49, total: 55, cut: 12 })).toBe("50\u00a0%");
  });
  it.each([["fits", "fits"], ["pool-full", "pool full"], ["not-worth", "not worth its tokens"]])("shows the reason %s as %s", (reason, text) => {
    expect(reasonText(reason)).toBe(text);
  });
  it("writes times as exactly as it takes to tell them apart", () => {
    expect(clockTimes([60, 120]).every((text) => /^\d\d:\d\d$/.test(text))).toBe(true);
    expect(clockTimes([60, 61, 61])).toEqual(["00", "01", "01"].map((second) => expect.stringMatching(`^\\d\\d:\\d\\d:${second}$`)));
    expect(clockTimes([60.25, 60.5])).toEqual([expect.stringMatching(/:00\.25$/), expect.stringMatching(/:00\.50$/)]);
  });
  it("names the parts of a relevance, the largest first", () => {
    expect(evidence({ meaning: 2.31, words: 6.14, time: 0 })).toBe("Found by its words (6.1), its meaning (2.3). The higher the number, the more it counts.");
    expect(evidence(null)).toBe("");
  });
  it.each([[0.614, "0.61"], [0.0052, "0.005"], [0.000123, "0.0001"], [1e-7, "<0.0001"], [1e-300, "0.00"], [0, "0.00"], [1, "1.00"]])("shows a score of %d as %s", (value, text) => {
    expect(score(value)).toBe(text);
  });
  it.each([[null, "–"], [0, "$0"], [0.00042, "$0.00042"], [0.05, "$0.050"], [12.3, "$12.30"], [-0.002, "−$0.0020"]])("formats %d dollars as %s", (value, text) => {
    expect(money(value)).toBe(text);
  });
  it.each([[null, "–"], [0.0321, "32 ms"], [3.21, "3.2 s"], [59.97, "1 min 0 s"], [200, "3 min 20 s"]])("formats %d seconds as %s", (value, text) => {
    expect(seconds(value)).toBe(text);
  });
  it("formats relative times", () => {
    expect([ago(100, 105), ago(100, 130), ago(100, 400), ago(100, 7300)]).toEqual(["just now", "30 s ago", "5 min ago", "2 h ago"]);
    expect(ago(1_794_000_000, 1_794_900_000)).toContain("2026");
  });
  it("names the form of an item that is not shown in full", () => {
    expect(formText({ form: "full", tokens: 9, size: 9 })).toBe("");
    expect(formText({ form: "digest", tokens: 400, size: 8005 })).toBe("digest, 400 of 8,005 tokens");
  });
  it("has signs and plurals", () => {
    expect([signed(6), signed(-6), signed(0)]).toEqual(["+6", "−6", "±0"]);
    expect([plural(1, "entry", "entries"), plural(2, "entry", "entries"), plural(0, "item")]).toEqual(["1 entry", "2 entries", "0 items"]);
  });
});

describe("invalid times", () => {
  it.each([1e15, -1e300, Number.MAX_VALUE])("survives %s", (at) => {
    expect(formatTime(at)).toBe("invalid time");
    expect(isoTime(at)).toBeUndefined();
  });

  it("formats valid times as ISO 8601", () => {
    expect(isoTime(0)).toBe("1970-01-01T00:00:00.000Z");
  });
});
