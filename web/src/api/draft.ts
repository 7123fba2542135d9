/** Form state: current and initial values of the fields. */

import { useState } from "preact/hooks";

import { changed } from "../logic/changes";

export interface Draft<T> {
  draft: T;
  put: (fields: Partial<T>) => void;
  /** The fields of the request body that changed; `body` builds it from the form. */
  changes: <B extends object>(body: (draft: T) => B) => Partial<B>;
}

export function useDraft<T extends object>(initial: T): Draft<T> {
  const [first] = useState(initial);
  const [draft, setDraft] = useState(first);
  return {
    draft,
    put: (fields) => setDraft((old) => ({ ...old, ...fields })),
    changes: (body) => changed(body(first), body(draft)),
  };
}
