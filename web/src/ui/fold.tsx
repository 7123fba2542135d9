/** Content that opens with a click, so that a page stays short. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

const PHONE = matchMedia("(max-width: 640px)");

/** Details that are only made when they are opened. */
export function Fold({ title, look, children }: { title: ComponentChildren; look?: string; children: () => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details class={look} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children()}
    </details>
  );
}

/** A section of a page that is closed at first on a phone. */
export function FoldSection({ id, title, children }: { id: string; title: ComponentChildren; children: ComponentChildren }) {
  const [open] = useState(!PHONE.matches);
  return (
    <section aria-labelledby={id}>
      <details class="fold-section" open={open}>
        <summary><h2 id={id}>{title}</h2></summary>
        {children}
      </details>
    </section>
  );
}
