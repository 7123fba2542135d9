/** What the keys of the keyboard do. */

import { Dialog } from "./dialog";

const KEYS: [string[], string][] = [
  [["?"], "show this"],
  [["/"], "search on this page"],
  [["g", "n"], "what happens now"],
  [["g", "d"], "compare two contexts"],
  [["g", "s"], "statistics"],
  [["g", "r"], "rooms"],
  [["g", "p"], "personas"],
  [["g", "m"], "memories"],
  [["g", "l"], "lorebooks"],
  [["↑", "↓", "Page ↑", "Page ↓", "Home", "End"], "move in the table of candidates"],
  [["←", "→", "↑", "↓"], "move in the picture"],
  [["Enter"], "open what is marked"],
  [["Esc"], "close the panel, or a question"],
];

export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([names, what]) => (
          <div key={what}>
            <dt>{names.map((name) => <kbd key={name}>{name}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
