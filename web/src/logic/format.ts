/** Formatting of numbers, times and percentages. */

const WHOLE = new Intl.NumberFormat("en");

/** 12345 → "12,345" */
export function whole(value: number): string {
  return WHOLE.format(Math.round(value));
}

/** Short form: 950 → "950", 12345 → "12.3k", 1048576 → "1.05M" */
export function short(value: number): string {
  if (Math.abs(value) < 1000) return String(Math.round(value));
  if (Math.abs(value) < 999_950) return `${digits(value / 1000)}k`;
  return `${digits(value / 1_000_000)}M`;
}

function digits(value: number): string {
  return String(Number(value.toPrecision(3)));
}

const PERCENT = "\u00a0%"; // not at the start of a line

/** 0.1234 → "12.3 %"; small values are not rounded to zero. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return `<0.1${PERCENT}`;
  return `${value >= 10 || value === 0 ? Math.round(value * 10) / 10 : Number(value.toPrecision(2))}${PERCENT}`;
}

const TINY = 0.0001; // smaller scores are shown as "<0.0001"
const ZERO = 1e-9; // the recency of items that are years old

/** Two decimals, or one significant digit for small scores: 0.61, 0.005, <0.0001. */
export function score(value: number): string {
  if (value > ZERO && value < TINY) return `<${TINY}`;
  return value > ZERO && value < 0.01 ? value.toPrecision(1) : value.toFixed(2);
}

/** Whether a relevance is so low that the number says nothing. */
export function isUnlikely(relevance: number): boolean {
  return relevance < 0.01;
}

/** Where a candidate stands in the order of its pool, how many are in it, and the last place that got in; 0 if there is none. */
export interface Place {
  rank: number;
  total: number;
  cut: number;
}

/** The probability that an item helps, in words if it is low: 71 %, over 99 %, "very unlikely to help, 52nd of 240, cut at 25". */
export function relevance(value: number, { rank, total, cut }: Place = { rank: 0, total: 0, cut: 0 }): string {
  if (!isUnlikely(value)) return value > 0.99 && value < 1 ? `over 99${PERCENT}` : `${Math.round(value * 100)}${PERCENT}`;
  const place = rank > 0 ? `, ${ordinal(rank)} of ${whole(total)}` : "";
  return `very unlikely to help${place}${place && cut > 0 && rank > cut ? `, cut at ${whole(cut)}` : ""}`;
}

/** The same where it does not stand beside its name: "relevance 71 %", "very unlikely to help". */
export function relevanceText(value: number, place?: Place): string {
  return `${isUnlikely(value) ? "" : "relevance "}${relevance(value, place)}`;
}

const REASONS: Record<string, string> = {
  "not-worth": "not worth its tokens", unlikely: "unlikely to help", free: "one of few memories", older: "before the included history", "low-water": "before the included history",
};

/** A reason in words: "pool-full" → "pool full". */
export function reasonText(reason: string): string {
  return REASONS[reason] ?? reason.replaceAll("-", " ");
}

const EVIDENCE: Record<string, string> = {
  words: "its words", meaning: "its meaning", neighbours: "messages near it", speaker: "who said it", time: "a time it mentions",
};

/** What a search result was found by, with its log-odds, the largest first: "Found by its words (6.1), its meaning (2.3)". */
export function evidence(of: Record<string, number> | null): string {
  const found = Object.entries(of ?? {}).filter(([, value]) => value.toFixed(1) !== "0.0").sort(([, a], [, b]) => b - a);
  return found.length > 0 ? `Found by ${found.map(([name, value]) => `${EVIDENCE[name] ?? name} (${value.toFixed(1)})`).join(", ")}. The higher the number, the more it counts.` : "";
}

/** 1 → "1st", 52 → "52nd", 1011 → "1,011th" */
export function ordinal(place: number): string {
  const tens = Math.floor(place / 10) % 10;
  const ending = tens === 1 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[place % 10] ?? "th");
  return whole(place) + ending;
}

/** US dollars: 0.00042 → "$0.00042", 12.3 → "$12.30" */
export function money(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  return sign + (size < 0.1 ? `$${Number(size.toPrecision(2)).toFixed(decimals(size))}` : `$${size.toFixed(2)}`);
}

function decimals(size: number): number {
  return Math.min(9, Math.max(2, 1 - Math.floor(Math.log10(size))));
}

/** 0.032 → "32 ms", 3.21 → "3.2 s", 200 → "3 min 20 s" */
export function seconds(value: number | null): string {
  if (value === null) return "–";
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** "just now", "5 min ago", "3 h ago", then the date. */
export function ago(at: number, now: number): string {
  const passed = now - at;
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86_400) return `${Math.floor(passed / 3600)} h ago`;
  return formatTime(at);
}

const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const LATEST = 8.64e12; // seconds: the latest time a Date can hold

/** Unix time → date and time. 0 means unknown. */
export function formatTime(at: number | null): string {
  if (!at) return "unknown time";
  return Math.abs(at) <= LATEST ? MOMENT.format(at * 1000) : "invalid time";
}

const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "short", year: "numeric" });

/** Unix time → "Tuesday 17 Nov 2026"; empty if it is unknown. */
export function dayName(at: number): string {
  return at && Math.abs(at) <= LATEST ? DAY.format(at * 1000).replace(",", "") : "";
}

const CLOCKS = [
  new Intl.DateTimeFormat("en-GB", { timeStyle: "short" }),
  new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }),
  new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 2 }),
];

/** Times of day, as exact as it takes to tell them apart: "11:16", "11:16:03", "11:16:03.25" */
export function clockTimes(times: readonly number[]): string[] {
  const written = CLOCKS.map((clock) => times.map((at) => (at && Math.abs(at) <= LATEST ? clock.format(at * 1000) : "")));
  return written.find((texts) => new Set(texts).size === new Set(times).size) ?? written.at(-1) ?? [];
}

const PERIODS = { hour: new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" }), day: new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" }) };

/** The start of an hour in local time, or of a day, which the server counts in UTC. */
export function formatPeriod(begin: number, over: string): string {
  return PERIODS[over === "hour" ? "hour" : "day"].format(begin * 1000);
}

/** Unix time → ISO 8601, if valid. */
export function isoTime(at: number): string | undefined {
  return Math.abs(at) <= LATEST ? new Date(at * 1000).toISOString() : undefined;
}

/** 1 → "1 item", 2 → "2 items" */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** The form of an item that is not shown in full: "digest, 400 of 8,005 tokens"; otherwise empty. */
export function formText({ form, tokens, size }: { form: string; tokens: number; size: number }): string {
  return form === "full" ? "" : `${form}, ${whole(tokens)} of ${plural(size, "token")}`;
}

/** A difference with its sign: 6 → "+6", −6 → "−6", 0 → "±0" */
export function signed(value: number): string {
  if (value === 0) return "±0";
  return value > 0 ? `+${whole(value)}` : `−${whole(-value)}`;
}
