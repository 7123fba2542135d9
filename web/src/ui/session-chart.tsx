/** The window of a session over its requests, as a stacked chart. A slider below it chooses a request. */

import type { Report } from "../api/sessions";
import { plural, short, whole } from "../logic/format";
import { causeTitle, columnOf, columnsOf, describeTurn, outlines, PARTS, total, usedParts } from "../logic/sessions";

export function SessionChart({ report, at, onMove }: { report: Report; at: number; onMove: (index: number) => void }) {
  const { turns } = report;
  const columns = columnsOf(turns);
  const parts = usedParts(turns);
  const largest = Math.max(1, ...turns.map(total));
  const place = (number: number) => `${(100 * columnOf(columns, number)) / columns.length}%`;
  const width = `${100 / columns.length}%`;
  const chosen = turns[at];
  const choose = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const share = (event.clientX - box.left) / Math.max(1, box.width);
    const column = columns[Math.min(columns.length - 1, Math.max(0, Math.floor(share * columns.length)))];
    if (column) onMove(turns.indexOf(column));
  };
  return (
    <div class="session-chart">
      <div class="session-axis small muted num" aria-hidden="true"><span>{short(largest)}</span><span>{short(largest / 2)}</span><span>0</span></div>
      <div class="session-area" role="img" aria-label={describe(report)} onClick={choose}>
        {chosen && <span class="session-chosen" style={{ left: place(chosen.number), width }} />}
        {outlines(columns, parts, largest).map(([part, clipPath]) => <span key={part} class={`session-part ${PARTS[part].look}`} style={{ clipPath }} />)}
        {turns.filter((turn) => turn.compacted).map((turn) => <span key={turn.number} class="session-compacted" style={{ left: place(turn.number) }} />)}
        {report.misses.map((miss) => <span key={miss.turn} class="session-miss" title={`Request ${miss.turn}: ${causeTitle(miss.cause)}`} style={{ left: place(miss.turn), width }} />)}
      </div>
      <input
        type="range" min={0} max={turns.length - 1} value={at} aria-label="Request" disabled={turns.length < 2}
        aria-valuetext={chosen && describeTurn(chosen, report.requests)} onInput={(event) => onMove(Number(event.currentTarget.value))}
      />
      <p class="session-keys small muted">
        {report.missed > 0 && <span><i class="session-miss-key" aria-hidden="true" /> cache miss</span>}
        {report.compactions > 0 && <span><i class="session-compacted-key" aria-hidden="true" /> compaction</span>}
        {turns.length < report.requests && <span>{whole(turns.length)} of {plural(report.requests, "request")} drawn</span>}
      </p>
    </div>
  );
}

function describe(report: Report): string {
  return `The prompts of ${plural(report.requests, "request")}, up to ${plural(report.largest, "token")}, with ${plural(report.missed, "cache miss", "cache misses")} and ${plural(report.compactions, "compaction")}. The slider below chooses a request, whose numbers follow.`;
}
