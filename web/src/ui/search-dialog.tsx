/** Search over everything, from anywhere. */

import { useEffect, useRef, useState } from "preact/hooks";

import { errorMessage, json, query } from "../api/client";
import type { Hit, SearchResult } from "../api/types";
import { formatTime } from "../logic/format";
import { latest, type Latest } from "../logic/latest";
import { hitGroups, hitPath } from "../logic/search";
import { go } from "../router";
import { Dialog } from "./dialog";

const DEBOUNCE = 200; // ms

export function SearchDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const { result, error } = useSearch(text.trim());
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => field.current?.focus(), []);

  const leave = (hit: Hit) => {
    onClose();
    go(hitPath(hit));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return (event.preventDefault(), onClose()); // otherwise it only empties the field
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...(list.current?.querySelectorAll<HTMLElement>("a") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
    (links[at] ?? field.current)?.focus();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const first = result && hitGroups(result.hits)[0]?.[1][0];
    if (first) leave(first);
  };
  return (
    <Dialog title="Search everything" onClose={onClose} wide>
      <div onKeyDown={onKeyDown}>
        <form role="search" onSubmit={submit}>
          <label class="field">
            <span>Contexts, messages, memories, lorebooks, rooms and personas</span>
            <input ref={field} type="search" value={text} placeholder="words, or an id" autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
          </label>
        </form>
        {error && <p class="bad" role="alert">{error}</p>}
        <p class="hidden" role="status">{result && `${result.hits.length} results`}</p>
        <div ref={list}>
          {result && hitGroups(result.hits).map(([name, hits]) => (
            <section key={name} class="hits" aria-label={name}>
              <h3>{name}</h3>
              <ul>
                {hits.map((hit) => (
                  <li key={hit.id}>
                    <a href={hitPath(hit)} onClick={onClose}>
                      <span class="change-text">{hit.excerpt || hit.title}</span>
                      <span class="small muted">{[hit.title, hit.parent, hit.at > 0 && formatTime(hit.at)].filter(Boolean).join(" · ")}</span>
                    </a>
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </div>
        {result && result.hits.length === 0 && <p class="muted">Nothing matches. Messages are found by words and meaning; everything else must contain all words.</p>}
        {result?.partial && <p class="small muted">Only the messages of 200 rooms were searched. To search another one, open it under Rooms.</p>}
      </div>
    </Dialog>
  );
}

function useSearch(text: string): { result: SearchResult | null; error: string } {
  const [state, setState] = useState<{ result: SearchResult | null; error: string }>({ result: null, error: "" });
  const requests = useRef<Latest<string> | null>(null);
  useEffect(() => {
    const each = latest<string, SearchResult>(
      (q, signal) => json(`/search${query({ q })}`, { signal }),
      { answer: (result) => setState({ result, error: "" }), error: (problem) => setState({ result: null, error: errorMessage(problem) }) },
    );
    requests.current = each;
    return () => each.stop();
  }, []);
  useEffect(() => {
    if (text === "") return setState({ result: null, error: "" });
    const timer = setTimeout(() => requests.current?.ask(text), DEBOUNCE);
    return () => clearTimeout(timer);
  }, [text]);
  return text === "" ? { result: null, error: "" } : state;
}
