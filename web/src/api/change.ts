/** A change in progress, done, or failed. */

import { useCallback, useRef, useState } from "preact/hooks";

import { errorMessage } from "./client";

export interface Change {
  busy: boolean;
  error: string;
  /** Run the change and return whether it succeeded. Ignored while another run is in progress. */
  run(work: () => Promise<unknown>): Promise<boolean>;
}

export function useChange(): Change {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const running = useRef(false);
  const run = useCallback(async (work: () => Promise<unknown>) => {
    if (running.current) return false;
    running.current = true;
    setBusy(true);
    setError("");
    try {
      await work();
      return true;
    } catch (problem) {
      setError(errorMessage(problem));
      return false;
    } finally {
      running.current = false;
      setBusy(false);
    }
  }, []);
  return { busy, error, run };
}
