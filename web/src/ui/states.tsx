/** Loading, empty and error states. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import type { Resource } from "../api/resource";

/** The heading of a page, focused after navigation for screen readers. */
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

export function ErrorNote({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="note bad" role="alert">
      <p><strong>Something went wrong.</strong> {error.charAt(0).toUpperCase() + error.slice(1)}</p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

/** Placeholder lines of about the size of the content, to avoid layout shifts. */
export function Skeleton({ rows = 6, tall = false }: { rows?: number; tall?: boolean }) {
  return (
    <div class={tall ? "skeleton tall" : "skeleton"} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => <div key={row} class="bone" />)}
    </div>
  );
}

/** Shown if there is no content, with a hint on how to add some. */
export function EmptyState({ title, text, action, children }: {
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

export const NOT_RECORDED = "The setting record_share records a share of the contexts in full. Statistics and answers include this one, but its decisions were not stored.";

/** Show the data once loaded, a skeleton until then, or the error. */
export function Loaded<T>({ of, rows, children }: {
  of: Resource<T>;
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <>
      {of.code === "context_not_recorded" && <EmptyState title="Only a summary of this context was stored" text={NOT_RECORDED} />}
      {of.error && of.code !== "context_not_recorded" && <ErrorNote error={of.error} retry={of.reload} />}
      {of.data === null ? !of.error && <Skeleton rows={rows ?? 6} /> : (
        <div class="loaded" aria-busy={of.busy}>{children(of.data)}</div>
      )}
    </>
  );
}

/** A shell command. */
export function Shell({ children }: { children: string }) {
  return <pre class="shell" tabIndex={0}><code>{children}</code></pre>;
}
