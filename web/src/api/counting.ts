/** What texts cost in tokens, told while they are written. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { latest, type Latest } from "../logic/latest";
import { json, key } from "./client";
import type { TextCount } from "./types";

const NAME = "brimful-count-model";

/** The model that texts are counted for; empty for the server's own choice. */
export const countModel = signal(localStorage.getItem(NAME) ?? "");

export function chooseCountModel(model: string): void {
  localStorage.setItem(NAME, model);
  countModel.value = model;
}

/** Count a text as it is typed. Null while the first count is on its way, or where it failed. */
export function useCount(text: string): TextCount | null {
  const [count, setCount] = useState<TextCount | null>(null);
  const asking = useRef<Latest<string> | null>(null);
  const now = useRef(text);
  now.current = text;
  const model = countModel.value;
  const secret = key.value;

  useEffect(() => {
    const each = latest<string, TextCount>(
      (said, signal) => json("/count", { method: "POST", body: { text: said, ...(model && { model }) }, signal }),
      { answer: (answer) => now.current && setCount(answer), error: () => setCount(null) },
    );
    asking.current = each;
    return () => each.stop();
  }, [model, secret]);

  useEffect(() => {
    if (text === "") setCount({ tokens: 0, basis: "exact" });
    else asking.current?.ask(text);
  }, [text, model, secret]);
  return count;
}
