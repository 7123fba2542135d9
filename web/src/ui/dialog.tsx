/** A modal dialog. The browser keeps the focus in it, and Escape closes it. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export function Dialog({ title, onClose, wide = false, children }: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const back = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => back?.isConnected && back.focus();
  }, []);
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-labelledby={heading} onClose={onClose} onCancel={onClose}>
      <div class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="round" aria-label="Close" onClick={onClose}><span aria-hidden="true">✕</span></button>
      </div>
      {children}
    </dialog>
  );
}

/** Ask for confirmation before removing something. */
export function Confirm({ title, action, busy, error, onYes, onClose, children }: {
  title: string;
  action: string;
  busy: boolean;
  error: string;
  onYes: () => void;
  onClose: () => void;
  children: ComponentChildren;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error && <p class="bad" role="alert">{error}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="button" class="danger" disabled={busy} onClick={onYes}>{action}</button>
      </div>
    </Dialog>
  );
}
