/** Scales: logarithmic sliders, from hundreds to millions of tokens, and the time axis of plots. */

export const STEPS = 1000;

/** Convert tokens to a slider step between `low` and `high`. */
export function toStep(value: number, low: number, high: number): number {
  const share = Math.log(clamp(value, low, high) / low) / Math.log(high / low);
  return Math.round(share * STEPS);
}

/** Convert a slider step to tokens, rounded to three significant digits; both ends are exact. */
export function fromStep(step: number, low: number, high: number): number {
  if (step <= 0) return low;
  if (step >= STEPS) return high;
  const value = low * (high / low) ** (step / STEPS);
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 2);
  return clamp(Math.round(value / unit) * unit, low, high);
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** The start and end of a time axis that fits the data, with at least `margin` seconds at both ends. */
export function timeRange(times: readonly number[], margin: number): [number, number] {
  const [first = 0, last = first] = [times[0], times.at(-1)];
  const more = Math.max(margin, (last - first) * 0.04, 15);
  return [first - more, last + more];
}
