/** Paginated lists: the first page is loaded at once, more on request. */

import { useEffect, useState } from "preact/hooks";

import { json, query, errorMessage } from "./client";
import { type Resource, useResource } from "./resource";

export interface Pages<T> {
  first: Resource<T>;
  /** All pages loaded so far. */
  pages: T[];
  more: boolean;
  busy: boolean;
  error: string;
  next(): void;
}

type Parameters = Record<string, string | number | boolean | null>;

/** Load the pages of a list. `after` is the name of the cursor parameter. */
export function usePages<T extends { next: string | number | null }>(where: string, parameters: Parameters, after: "after" | "before"): Pages<T> {
  const address = where + query(parameters);
  const first = useResource<T>(address, { keep: true });
  const [rest, setRest] = useState<T[]>([]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => setRest([]), [first.data]);

  const pages = first.data ? [first.data, ...rest] : [];
  const cursor = pages.at(-1)?.next ?? null;
  const next = () => {
    setBusy(true);
    setError("");
    json<T>(where + query({ ...parameters, [after]: cursor }))
      .then((page) => setRest((all) => [...all, page]), (problem: unknown) => setError(errorMessage(problem)))
      .finally(() => setBusy(false));
  };
  return { first, pages, more: cursor !== null, busy, error, next };
}
