/** Data loaded from the API: loading, loaded, or failed, with a way to retry. */

import { useCallback, useEffect, useState } from "preact/hooks";

import { errorCode, isAbort, json, key, errorMessage } from "./client";

export interface Resource<T> {
  data: T | null;
  error: string;
  /** The server's error code, if any. */
  code: string;
  busy: boolean;
  reload(): void;
  put(data: T): void;
}

interface State<T> {
  where: string | null;
  data: T | null;
  error: string;
  code: string;
  busy: boolean;
}

/**
 * Load a path of the API, and again whenever it changes. With `keep`, the old data stays until the new data arrives, so
 * lists do not jump while you type a filter. Nothing is loaded while the path is null.
 */
export function useResource<T>(where: string | null, { keep = false } = {}): Resource<T> {
  const [state, setState] = useState<State<T>>({ where: null, data: null, error: "", code: "", busy: true });
  const [turn, setTurn] = useState(0);
  const secret = key.value;

  useEffect(() => {
    if (where === null) return;
    const controller = new AbortController();
    setState((old) => ({ ...old, where, busy: true, error: "", code: "", data: keep || old.where === where ? old.data : null }));
    json<T>(where, { signal: controller.signal }).then(
      (data) => setState({ where, data, error: "", code: "", busy: false }),
      (error: unknown) => {
        if (!isAbort(error)) setState((old) => ({ ...old, busy: false, error: errorMessage(error), code: errorCode(error) }));
      },
    );
    return () => controller.abort();
  }, [where, keep, turn, secret]);

  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const put = useCallback((data: T) => setState((old) => ({ ...old, data })), []);
  const stale = !keep && state.where !== where;
  if (stale) return { data: null, error: "", code: "", busy: true, reload, put };
  return { data: state.data, error: state.error, code: state.code, busy: state.busy, reload, put };
}
