/** Live token counts while typing. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { latest, type Latest } from "../logic/latest";
import { json, key } from "./client";
import type { TextCount } from "./types";

const NAME = "brimful-count-model";

/** The model to count tokens for; empty for the server's default. */
export const countModel = signal(localStorage.getItem(NAME) ?? "");

export function chooseCountModel(model: string): void {
  localStorage.setItem(NAME, model);
  countModel.value = model;
}

/** Count a text as it is typed. Null until the first count arrives, or if counting failed. */
export function useCount(text: string): TextCount | null {
  const [count, setCount] = useState<TextCount | null>(null);
  const counter = useRef<Latest<string> | null>(null);
  const now = useRef(text);
  now.current = text;
  const model = countModel.value;
  const secret = key.value;

  useEffect(() => {
    const each = latest<string, TextCount>(
      (value, signal) => json("/count", { method: "POST", body: { text: value, ...(model && { model }) }, signal }),
      { answer: (answer) => now.current && setCount(answer), error: () => setCount(null) },
    );
    counter.current = each;
    return () => each.stop();
  }, [model, secret]);

  useEffect(() => {
    if (text === "") setCount({ tokens: 0, basis: "exact" });
    else counter.current?.ask(text);
  }, [text, model, secret]);
  return count;
}
