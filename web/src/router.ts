/** Client-side routing with plain links and the browser's history. */

import { computed, signal } from "@preact/signals";

import { match } from "./logic/routes";

const where = signal(location.pathname + location.search);

export const route = computed(() => match(where.value));

/** Go to another page, or with `replace` change the URL of this one. */
export function go(to: string, { replace = false } = {}): void {
  if (to === where.value) return;
  const before = route.value.path;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  where.value = to;
  if (!replace && route.value.path !== before) resetPage();
}

/** Update the query of the URL; empty values are removed, and lists are repeated. */
export function setQuery(values: Record<string, string | string[] | null>, { replace = true } = {}): void {
  const search = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(values)) {
    search.delete(name);
    for (const each of [value ?? []].flat()) if (each) search.append(name, each);
  }
  const text = search.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace });
}

let hasMoved = false;

/** Scroll a new page to the top and focus its heading for screen readers. */
function resetPage(): void {
  hasMoved = true;
  scrollTo(0, 0);
  focusHeading();
}

/** Focus the heading of a page, unless it is the first one. A page whose code is loaded now has it only then. */
export function focusHeading(): void {
  if (hasMoved) requestAnimationFrame(() => document.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true }));
}

export function listen(): void {
  addEventListener("popstate", () => {
    where.value = location.pathname + location.search;
  });
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a");
    if (!link || event.defaultPrevented || event.button !== 0 || link.target || link.hasAttribute("download")) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || link.hash || !match(link.pathname + link.search).page) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
