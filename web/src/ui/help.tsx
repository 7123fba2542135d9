/** Help: what the words mean, and keyboard shortcuts. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { GLOSSARY, type Term, withTerms } from "../logic/glossary";
import { Dialog } from "./dialog";

const SHORTCUTS: [string[], string][] = [
  [["?"], "show this help"],
  [["/"], "search on this page"],
  [["Ctrl", "K"], "search everything"],
  [["g", "c"], "contexts"],
  [["g", "d"], "compare two contexts"],
  [["g", "s"], "statistics"],
  [["g", "r"], "rooms"],
  [["g", "p"], "personas"],
  [["g", "m"], "memories"],
  [["g", "l"], "lorebooks"],
  [["g", "e"], "sessions of agents"],
  [["g", "a"], "admin"],
  [["↑", "↓", "Page ↑", "Page ↓", "Home", "End"], "move through the table of candidates, or the steps of a run"],
  [["←", "→", "↑", "↓"], "move through the treemap"],
  [["←", "→", "Home", "End"], "step through a timeline"],
  [["Enter"], "open the selected item"],
  [["Esc"], "close the panel or dialog"],
];

/** Whether help is open, and at which word. */
const shown = signal<Term | boolean>(false);

export function showHelp(term?: Term): void {
  shown.value = term ?? true;
}

/** A small button beside a label that explains the word. */
export function Explain({ term }: { term: Term }) {
  return (
    <button type="button" class="explain" aria-label={`What is “${term}”?`} title={GLOSSARY[term]} onClick={() => showHelp(term)}>
      <span aria-hidden="true">?</span>
    </button>
  );
}

/** A sentence, with an explanation after the first use of each word of the glossary. */
export function Explained({ text }: { text: string }) {
  return <>{withTerms(text).map((piece, index) => <span key={index}>{piece.text}{piece.term && <> <Explain term={piece.term} /></>}</span>)}</>;
}

export function HelpDialog() {
  const term = shown.value;
  return term === false ? null : <Help key={String(term)} term={term} />;
}

function Help({ term }: { term: Term | true }) {
  const chosen = useRef<HTMLDivElement>(null);
  useEffect(() => chosen.current?.scrollIntoView({ block: "center" }), []);
  return (
    <Dialog title="Help" onClose={() => (shown.value = false)} wide>
      <h3>Words</h3>
      <dl class="glossary">
        {Object.entries(GLOSSARY).map(([name, text]) => (
          <div key={name} ref={name === term ? chosen : null} data-chosen={name === term || undefined}><dt>{name}</dt><dd>{text}</dd></div>
        ))}
      </dl>
      <h3>Keyboard shortcuts</h3>
      <dl class="keys">
        {SHORTCUTS.map(([names, what]) => (
          <div key={what}>
            <dt>{names.map((name) => <kbd key={name}>{name}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
