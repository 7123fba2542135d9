/** Lists that come in pages: the first one when the page opens, more when somebody wants them. */

import { useEffect, useState } from "preact/hooks";

import { json, query, words } from "./client";
import { type Resource, useResource } from "./resource";

export interface Pages<T> {
  first: Resource<T>;
  /** All pages that were read. */
  pages: T[];
  more: boolean;
  busy: boolean;
  error: string;
  next(): void;
}

type Said = Record<string, string | number | boolean | null>;

/** Read the pages of a list. `after` is the name of the parameter that says where the next page begins. */
export function usePages<T extends { next: string | number | null }>(where: string, said: Said, after: "after" | "before"): Pages<T> {
  const address = where + query(said);
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
    json<T>(where + query({ ...said, [after]: cursor }))
      .then((page) => setRest((all) => [...all, page]), (problem: unknown) => setError(words(problem)))
      .finally(() => setBusy(false));
  };
  return { first, pages, more: cursor !== null, busy, error, next };
}
