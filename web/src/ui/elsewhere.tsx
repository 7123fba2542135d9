/** Memories that are like what was looked for, and were no candidates of this context: each can be asked why. */

import { useEffect, useMemo, useState } from "preact/hooks";

import { query } from "../api/client";
import type { MemoryList } from "../api/kept";
import { useResource } from "../api/resource";
import type { Decision } from "../api/types";

const MOST = 5;
const PAUSE = 300; // milliseconds without a key pressed

export function Elsewhere({ text, decisions, onOpen }: { text: string; decisions: Decision[]; onOpen: (id: string) => void }) {
  const words = useSettled(text.trim());
  return words ? <Found key={words} words={words} decisions={decisions} onOpen={onOpen} /> : null;
}

function Found({ words, decisions, onOpen }: { words: string; decisions: Decision[]; onOpen: (id: string) => void }) {
  const read = useResource<MemoryList>(`/memories${query({ q: words, limit: 100 })}`);
  const candidates = useMemo(() => new Set(decisions.map((each) => each.id)), [decisions]);
  const others = (read.data?.memories ?? []).filter((each) => !candidates.has(each.id)).slice(0, MOST);
  if (others.length === 0) return null;
  return (
    <section class="elsewhere" aria-labelledby="elsewhere-heading">
      <h3 id="elsewhere-heading">Known, and no candidate of this context</h3>
      <ul class="cards">
        {others.map((each) => (
          <li key={each.id}>
            <button type="button" class="card" onClick={() => onOpen(each.id)}>
              <span class="card-text">{each.content}</span>
              <span class="small muted">memory <code>{each.id}</code> · ask why it was no candidate</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A text as it stands when nobody has typed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
