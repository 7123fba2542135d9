/** The window as one bar: what fills it, what is free, and what is kept for safety and for the answer. */

import type { Band } from "../api/types";
import { percent, short, whole } from "../logic/format";
import { described, look, title } from "../logic/components";

/** A bar to look at, with its content as words for those who do not see it. */
export function WindowBar({ bands, window }: { bands: Band[]; window: number }) {
  return (
    <div class="bar" role="img" aria-label={described(bands, window)}>
      {bands.map((band) => (
        <span
          key={band.name} class={`seg ${look(band.name)}`} style={{ flexGrow: String(band.tokens) }}
          title={`${title(band.name)}: ${whole(band.tokens)} tokens`}
        />
      ))}
    </div>
  );
}

/** A bar whose parts can be chosen: one of them, or all. */
export function BandChoice({ bands, window, chosen, onChoose }: {
  bands: Band[];
  window: number;
  chosen: string;
  onChoose: (name: string) => void;
}) {
  return (
    <div class="band-choice">
      <div class="bar tall" aria-hidden="true">
        {bands.map((band) => (
          <span
            key={band.name} class={`seg ${look(band.name)}`} data-chosen={chosen === band.name || undefined}
            style={{ flexGrow: String(band.tokens) }} title={`${title(band.name)}: ${whole(band.tokens)} tokens`}
            onClick={() => onChoose(chosen === band.name ? "" : band.name)}
          />
        ))}
      </div>
      <ul class="legend" aria-label={`Parts of the window of ${whole(window)} tokens`}>
        {bands.map((band) => (
          <li key={band.name}>
            <button type="button" aria-pressed={chosen === band.name} onClick={() => onChoose(chosen === band.name ? "" : band.name)}>
              <span class={`swatch ${look(band.name)}`} aria-hidden="true" />
              <span class="legend-name">{title(band.name)}</span>
              <span class="num">{short(band.tokens)}</span>
              <span class="num muted">{percent(band.tokens / Math.max(1, window))}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
