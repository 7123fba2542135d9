/** What a page shows before there is something to show, when there is nothing, and when something went wrong. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import type { Resource } from "../api/resource";

/** The heading of a page. It is the first thing that a screen reader hears after a link was followed. */
export function Heading({ title, children }: { title: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Brimful`;
  }, [title]);
  return (
    <div class="heading">
      <h1 tabIndex={-1}>{title}</h1>
      {children}
    </div>
  );
}

export function Failed({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="note bad" role="alert">
      <p><strong>That did not work.</strong> {error}</p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

/** Grey lines of about the size of what will be there, so that nothing jumps. */
export function Skeleton({ rows = 6, tall = false }: { rows?: number; tall?: boolean }) {
  return (
    <div class={tall ? "skeleton tall" : "skeleton"} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => <div key={row} class="bone" />)}
    </div>
  );
}

/** An empty place that says how it is filled. */
export function Patience({ title, text, action, children }: {
  title: string;
  text?: string;
  action?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {text && <p>{text}</p>}
      {children}
      {action && <p>{action}</p>}
    </section>
  );
}

/** Show what was read; until then a skeleton, and the reason where it failed. */
export function Loaded<T>({ of, rows, children }: {
  of: Resource<T>;
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <>
      {of.error && <Failed error={of.error} retry={of.reload} />}
      {of.data === null ? !of.error && <Skeleton rows={rows ?? 6} /> : (
        <div class="loaded" aria-busy={of.busy}>{children(of.data)}</div>
      )}
    </>
  );
}

/** A line to type into a shell. */
export function Shell({ children }: { children: string }) {
  return <pre class="shell" tabIndex={0}><code>{children}</code></pre>;
}
