/** Memories that match the search but were not candidates of this context. */

import { useEffect, useMemo, useState } from "preact/hooks";

import { query } from "../api/client";
import type { MemoryList } from "../api/records";
import { useResource } from "../api/resource";
import type { Decision } from "../api/types";

const LIMIT = 5;
const DEBOUNCE = 300; // milliseconds

export function OtherMemories({ text, decisions, onOpen }: { text: string; decisions: Decision[]; onOpen: (id: string) => void }) {
  const words = useDebounced(text.trim());
  return words ? <Matches key={words} words={words} decisions={decisions} onOpen={onOpen} /> : null;
}

function Matches({ words, decisions, onOpen }: { words: string; decisions: Decision[]; onOpen: (id: string) => void }) {
  const read = useResource<MemoryList>(`/memories${query({ q: words, limit: 100 })}`);
  const candidates = useMemo(() => new Set(decisions.map((each) => each.id)), [decisions]);
  const others = (read.data?.memories ?? []).filter((each) => !candidates.has(each.id)).slice(0, LIMIT);
  if (others.length === 0) return null;
  return (
    <section class="elsewhere" aria-labelledby="elsewhere-heading">
      <h3 id="elsewhere-heading">Matching memories that were not candidates</h3>
      <ul class="cards">
        {others.map((each) => (
          <li key={each.id}>
            <button type="button" class="card" onClick={() => onOpen(each.id)}>
              <span class="card-text">{each.content}</span>
              <span class="small muted">memory <code>{each.id}</code> · explain why</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The text after typing has stopped for a moment. */
function useDebounced(text: string): string {
  const [debounced, setDebounced] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(text), DEBOUNCE);
    return () => clearTimeout(timer);
  }, [text]);
  return debounced;
}
