/** The button that loads the next page of a list. */

import type { Pages } from "../api/pages";
import { ErrorNote } from "./states";

export function More<T>({ of }: { of: Pages<T> }) {
  return (
    <>
      {of.error && <ErrorNote error={of.error} />}
      {of.more && <p class="center"><button type="button" disabled={of.busy} onClick={of.next}>{of.busy ? "Loading…" : "More"}</button></p>}
    </>
  );
}
