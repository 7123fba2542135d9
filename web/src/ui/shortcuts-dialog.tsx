/** Keyboard shortcuts. */

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
  [["↑", "↓", "Page ↑", "Page ↓", "Home", "End"], "move through the table of candidates"],
  [["←", "→", "↑", "↓"], "move through the treemap"],
  [["←", "→", "Home", "End"], "step through a timeline"],
  [["Enter"], "open the selected item"],
  [["Esc"], "close the panel or dialog"],
];

export function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
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
