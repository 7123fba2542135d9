/** Time series drawn by uPlot in the page's colors. */

import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";

import { formatTime, short } from "../logic/format";
import { isDark } from "../theme";

export interface Line {
  name: string;
  values: (number | null)[];
  /** A CSS custom property, such as `--c-recent`. */
  colour: string;
  dash?: number[];
}

const HEIGHT = 220;
const SECOND = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(); // between ticks of whole numbers

export function Plot({ title, times, lines, range, show }: {
  title: string;
  times: number[];
  lines: Line[];
  /** Start and end, in Unix time. */
  range: readonly [number, number];
  /** How to write a value; by default values are whole numbers. */
  show?: (value: number) => string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const dark = isDark();
  useEffect(() => {
    const element = ref.current;
    let plot: uPlot | null = null;
    let isGone = false;
    const watch = new ResizeObserver(() => element && plot?.setSize({ width: element.clientWidth, height: HEIGHT }));
    void import("./plot-library").then(({ default: Library }) => {
      if (isGone || !element) return;
      plot = new Library(options(element, lines, range, show), [times, ...lines.map((line) => line.values)], element);
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
      <div ref={ref} class="plot-area" role="img" aria-label={`${title}. The numbers are in the table below.`} />
    </figure>
  );
}

function options(element: HTMLElement, lines: Line[], [from, to]: readonly [number, number], show?: (value: number) => string): uPlot.Options {
  const css = getComputedStyle(element);
  const colour = (name: string) => css.getPropertyValue(name).trim();
  const at = (time: number) => (to - from > 2 * 86_400 ? DAY : to - from > 900 ? HOUR : SECOND).format(time * 1000);
  const text = show ?? short;
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--muted"), grid, ticks: grid, font: `12px ${css.fontFamily}` };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    scales: { x: { range: () => [from, to] }, y: { range: (_, __, max) => [0, Math.max(max * 1.08, show ? 1e-9 : 1)] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(at) }, { ...axis, size: 64, values: (_, ticks) => ticks.map(text), ...(!show && { incrs: STEPS }) }],
    series: [
      { label: "Time", value: (_: uPlot, time: number | null) => (time === null ? "–" : formatTime(time)) },
      ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 2,
        points: { size: 6 },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : text(value)),
        ...(line.dash && { dash: line.dash }),
      })),
    ],
  };
}
