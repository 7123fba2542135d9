/** The window as a bar: contents, free space, safety margin and the reserve for the answer. */

import type { Band, ContextRow } from "../api/types";
import { percent, short, signed, whole } from "../logic/format";
import { describeWindow, inDisplayOrder, look, rowBands, title } from "../logic/components";

/** A static bar with a text alternative. */
export function WindowBar({ bands, window }: { bands: Band[]; window: number }) {
  return (
    <div class="bar" role="img" aria-label={describeWindow(bands, window)}>
      {bands.map((band) => (
        <span
          key={band.name} class={`seg ${look(band.name)}`} style={{ flexGrow: String(band.tokens) }}
          title={`${title(band.name)}: ${whole(band.tokens)} tokens`}
        />
      ))}
    </div>
  );
}

/** What the colors of some bars mean. */
export function BarLegend({ rows }: { rows: ContextRow[] }) {
  const parts = new Map(rows.flatMap(rowBands).map((band) => [band.name, band]));
  return (
    <ul class="legend small" aria-label="Colors of the bars">
      {inDisplayOrder([...parts.values()]).map(({ name }) => (
        <li key={name} class="legend-item"><span class={`swatch ${look(name)}`} aria-hidden="true" />{title(name)}</li>
      ))}
      <li class="legend-item muted">Pinned items count as what they are, such as memories.</li>
    </ul>
  );
}

/** How much of the available tokens a context uses. */
export function BudgetUse({ row, change }: { row: ContextRow; change?: number | undefined }) {
  return (
    <span>
      <b class="num">{whole(row.tokens)}</b> <span class="muted">of {whole(row.available)} available tokens</span> (<span class="num">{percent(row.tokens / Math.max(1, row.available))}{change !== undefined && `, ${signed(change)}`}</span>)
    </span>
  );
}

/** What was asked and answered, on a line each. */
export function ExchangeLines({ question, answer }: { question: string; answer: string }) {
  return (
    <>
      {question && <span class="exchange"><b class="muted">Question</b> <span>{question}</span></span>}
      {answer && <span class="exchange"><b class="muted">Answer</b> <span>{answer}</span></span>}
    </>
  );
}

/** A bar in which one part can be selected. */
export function BandChoice({ bands: parts, window, chosen, onChoose }: {
  bands: Band[];
  window: number;
  chosen: string;
  onChoose: (name: string) => void;
}) {
  const bands = inDisplayOrder(parts);
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
