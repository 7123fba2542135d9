/** Time series drawn by uPlot in the page's colors. */

import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";

import { clockTimes, formatTime, short } from "../logic/format";
import { isDark } from "../theme";

export interface Line {
  name: string;
  values: (number | null)[];
  /** A CSS custom property, such as `--c-recent`. */
  colour: string;
  dash?: number[];
}

const HEIGHT = 240;
const OUTSIDE = -10; // as uPlot says that the pointer is elsewhere
const MAX_POINTS = 60; // more are drawn as a line only
const SECOND = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(); // between ticks of whole numbers

export function Plot({ title, unit, times, lines, range, show = short }: {
  title: string;
  /** What the vertical axis counts. */
  unit: string;
  times: number[];
  lines: Line[];
  /** Start and end, in Unix time. Without it, points are evenly spaced, whatever the time between them. */
  range?: readonly [number, number];
  /** How to write a value; by default values are whole numbers. */
  show?: (value: number) => string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null); // the point under the pointer
  const pointer = useRef({ left: OUTSIDE, top: OUTSIDE });
  const dark = isDark();
  useEffect(() => {
    const element = ref.current;
    let plot: uPlot | null = null;
    let isGone = false;
    const watch = new ResizeObserver(() => element && plot?.setSize({ width: element.clientWidth, height: HEIGHT }));
    void import("./plot-library").then(({ default: Library }) => {
      if (isGone || !element) return;
      const before = pointer.current; // new data must not take away what the pointer shows
      const hooks = {
        setLegend: [(self: uPlot) => setAt(self.cursor.idx ?? null)],
        setCursor: [({ cursor }: uPlot) => (pointer.current = { left: cursor.left ?? OUTSIDE, top: cursor.top ?? OUTSIDE })],
      };
      plot = new Library({ ...options(element, unit, times, lines, show, range), hooks }, [range ? times : times.map((_, index) => index), ...lines.map((line) => line.values)], element);
      plot.setCursor(before);
      watch.observe(element);
    });
    return () => {
      isGone = true;
      watch.disconnect();
      plot?.destroy();
    };
  }, [times, lines, range, dark, show]);
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <div ref={ref} class="plot-area" role="img" aria-label={`${title}. The numbers are in the ${range ? "table below" : "list of contexts"}.`} />
      <ul class="legend small" aria-hidden="true">
        {lines.map((line) => (
          <li key={line.name} class="legend-item">
            <span class={line.dash ? "line dashed" : "line"} style={{ color: `var(${line.colour})` }} />
            {line.name} {at !== null && <b class="num">{shown(line.values[at], show)}</b>}
          </li>
        ))}
        {at !== null && <li class="legend-item muted">{formatTime(times[at] ?? null)}</li>}
      </ul>
    </figure>
  );
}

function shown(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? "–" : show(value);
}

function options(element: HTMLElement, unit: string, times: number[], lines: Line[], show: (value: number) => string, range?: readonly [number, number]): uPlot.Options {
  const css = getComputedStyle(element);
  const colour = (name: string) => css.getPropertyValue(name).trim();
  const span = range ? range[1] - range[0] : (times.at(-1) ?? 0) - (times[0] ?? 0);
  const format = span > 2 * 86_400 ? DAY : span > 900 ? HOUR : SECOND;
  const write = (time: number) => format.format(time * 1000);
  const labels = span > 2 * 86_400 ? times.map(write) : clockTimes(times);
  const isWhole = show === short;
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--muted"), grid, ticks: grid, font: `12px ${css.fontFamily}`, labelFont: `12px ${css.fontFamily}`, labelSize: 18 };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      x: { time: false, range: () => (range ? [...range] : [-0.5, times.length - 0.5]) },
      y: { range: (_, __, max) => [0, Math.max(max * 1.08, isWhole ? 1 : 1e-9)] },
    },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => (range ? write(tick) : (labels[tick] ?? ""))), ...(!range && { incrs: STEPS }) },
      { ...axis, size: 56, label: unit, values: (_, ticks) => ticks.map(show), ...(isWhole && { incrs: STEPS }) },
    ],
    series: [{}, ...lines.map((line) => ({ stroke: colour(line.colour), width: 2, points: { show: times.length <= MAX_POINTS, size: 6 }, ...(line.dash && { dash: line.dash }) }))],
  };
}
