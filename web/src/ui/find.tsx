/** Find an item of a context, or something that was not a candidate, and what became of it. */

import { useState } from "preact/hooks";

import { path, query } from "../api/client";
import { useResource } from "../api/resource";
import type { FindResult, Match } from "../api/types";
import { formatTime, reasonText } from "../logic/format";
import { outcomeText } from "./outcome";
import { Loaded } from "./states";

export function Find({ context, label, text, onFind, onPick }: {
  context: string;
  label: string;
  /** What was searched for. */
  text: string;
  onFind: (text: string) => void;
  onPick: (id: string) => void;
}) {
  const [typed, setTyped] = useState<string | null>(null); // null: nothing was typed since
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed !== null) onFind(typed.trim());
    setTyped(null);
  };
  return (
    <>
      <form class="forgotten" role="search" aria-label={label} onSubmit={submit}>
        <label class="field grow">
          <span>{label}</span>
          <input type="text" value={typed ?? text} placeholder="a word of it, or a part of one" onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <button type="submit">Find</button>
        {text && <button type="button" class="quiet" onClick={() => (setTyped(null), onFind(""))}>Clear</button>}
      </form>
      {text && <Results key={text} context={context} text={text} onPick={onPick} />}
    </>
  );
}

function Results({ context, text, onPick }: { context: string; text: string; onPick: (id: string) => void }) {
  const read = useResource<FindResult>(path`/contexts/${context}/find` + query({ q: text }));
  return (
    <Loaded of={read} rows={3}>
      {({ matches, partial }) => (
        <section class="found" aria-label={`Results for ${text}`}>
          {matches.length === 0 && <p role="status">{partial
            ? <>Nothing was found that contains “{text}”. This store is so large that most of its messages were only searched for whole words, and some not at all.</>
            : <>Nothing in this store contains “{text}”: no candidate, memory, message or lorebook entry. The model cannot know what was never stored.</>}</p>}
          <ol class="basis">{matches.map((each) => <li key={each.id}><Result item={each} onPick={onPick} /></li>)}</ol>
          {partial && matches.length > 0 && <p class="small muted">There may be more matches. Add a word to narrow them down.</p>}
        </section>
      )}
    </Loaded>
  );
}

function Result({ item, onPick }: { item: Match; onPick: (id: string) => void }) {
  return (
    <button type="button" onClick={() => onPick(item.id)}>
      <span class="basis-text">{item.excerpt || item.id}</span>
      <span class="small muted">{kindText(item.kind)}{item.at > 0 && ` of ${formatTime(item.at)}`}: <Status item={item} /></span>
    </button>
  );
}

function Status({ item: { outcome, reason, why } }: { item: Match }) {
  if (outcome === null) return <><b>not a candidate</b>, {why}</>;
  return outcome === "dropped" ? <><b>left out</b>, {reasonText(reason)}</> : <b>{outcomeText({ outcome, reason })}</b>;
}

/** "memory-semantic" → "memory" */
function kindText(kind: string): string {
  return kind === "lorebook" ? "lorebook entry" : (kind.split("-")[0] ?? kind);
}
