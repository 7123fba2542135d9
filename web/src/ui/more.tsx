/** The button that brings the next page of a list. */

import type { Pages } from "../api/pages";
import { Failed } from "./states";

export function More<T>({ of }: { of: Pages<T> }) {
  return (
    <>
      {of.error && <Failed error={of.error} />}
      {of.more && <p class="center"><button type="button" disabled={of.busy} onClick={of.next}>{of.busy ? "Loading…" : "More"}</button></p>}
    </>
  );
}
