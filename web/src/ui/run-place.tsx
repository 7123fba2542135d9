/** Where a context stands in the run of an agent, with links to the rounds before and after it. */

import type { RunPlace } from "../api/types";
import { whole } from "../logic/format";
import { contextPath, runPath } from "../logic/routes";

export function RunLinks({ run }: { run: RunPlace | null }) {
  if (run === null || run.steps < 2) return null;
  return (
    <nav class="run-place" aria-label="Run">
      {run.previous && <a href={contextPath(run.previous)} rel="prev">‹ Previous round</a>}
      <a href={runPath(run.id, run.step)}>Step {whole(run.step)} of {whole(run.steps)}</a>
      {run.next && <a href={contextPath(run.next)} rel="next">Next round ›</a>}
    </nav>
  );
}
