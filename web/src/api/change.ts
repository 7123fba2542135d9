/** Something that is changed: under way, done, or refused for a reason. */

import { useCallback, useRef, useState } from "preact/hooks";

import { words } from "./client";

export interface Change {
  busy: boolean;
  error: string;
  /** Do it, and say whether it worked. While it is under way, it is not begun again. */
  run(work: () => Promise<unknown>): Promise<boolean>;
}

export function useChange(): Change {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const under = useRef(false);
  const run = useCallback(async (work: () => Promise<unknown>) => {
    if (under.current) return false;
    under.current = true;
    setBusy(true);
    setError("");
    try {
      await work();
      return true;
    } catch (problem) {
      setError(words(problem));
      return false;
    } finally {
      under.current = false;
      setBusy(false);
    }
  }, []);
  return { busy, error, run };
}
