/** Keep what was clicked in its place on the screen while a panel opens or closes beside it and the page is laid out again. */

import { useCallback, useLayoutEffect, useRef } from "preact/hooks";

const FRAMES = 12; // until pictures have their new size

/** Return a function to call before the panel changes. `panel` is what it shows; empty if it is closed. */
export function useAnchor(panel: string): () => void {
  const anchor = useRef<{ element: Element; top: number } | null>(null);
  const isOpen = panel !== "";
  useLayoutEffect(() => {
    let left = anchor.current ? FRAMES : 0;
    let frame = 0;
    const settle = () => {
      const { element, top } = anchor.current ?? {};
      if (!element?.isConnected || top === undefined) return;
      scrollBy({ top: element.getBoundingClientRect().top - top, behavior: "instant" });
      if (--left > 0) frame = requestAnimationFrame(settle);
    };
    if (left > 0) settle();
    return () => cancelAnimationFrame(frame);
  }, [isOpen]);
  return useCallback(() => {
    const clicked = document.activeElement?.closest("button, tr, a, [role=button]");
    const element = clicked && !clicked.closest(".panel") ? clicked : anchor.current?.element;
    anchor.current = element?.isConnected ? { element, top: element.getBoundingClientRect().top } : null;
  }, []);
}
