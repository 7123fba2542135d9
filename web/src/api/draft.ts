/** Form state: current and initial values of the fields, and texts that survive a reload. */

import { useState } from "preact/hooks";

import { changed } from "../logic/changes";

export interface Draft<T> {
  draft: T;
  put: (fields: Partial<T>) => void;
  /** The fields of the request body that changed; `body` builds it from the form. */
  changes: <B extends object>(body: (draft: T) => B) => Partial<B>;
}

/** A text that survives a reload of the tab. */
export function useStored(name: string): [string, (text: string) => void] {
  const key = `brimful-${name}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? "");
  const put = (next: string) => {
    if (next) sessionStorage.setItem(key, next);
    else sessionStorage.removeItem(key);
    setText(next);
  };
  return [text, put];
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
