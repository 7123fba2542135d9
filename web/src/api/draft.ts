/** A form while one types: its fields as they are, and as they were at the beginning. */

import { useState } from "preact/hooks";

import { changed } from "../logic/changed";

export interface Draft<T> {
  draft: T;
  put: (said: Partial<T>) => void;
  /** What of a body was changed, if `body` makes one of the fields. */
  changes: <B extends object>(body: (draft: T) => B) => Partial<B>;
}

export function useDraft<T extends object>(begin: T): Draft<T> {
  const [begun] = useState(begin);
  const [draft, setDraft] = useState(begun);
  return {
    draft,
    put: (said) => setDraft((old) => ({ ...old, ...said })),
    changes: (body) => changed(body(begun), body(draft)),
  };
}
