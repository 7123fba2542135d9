/** Live token count of a text field, with the difference from the saved version. */

import { useCount } from "../api/counting";
import { signed, whole } from "../logic/format";

export function TokenCost({ text, was, before }: {
  text: string;
  /** The saved version, as text or as a token count. */
  was?: string;
  before?: number | undefined;
}) {
  const count = useCount(text);
  const first = useCount(was ?? "")?.tokens;
  const old = before ?? (was === undefined ? undefined : first);
  return (
    <span class="cost" aria-live="polite">
      {count === null ? "counting…" : (
        <>
          <b class="num">{whole(count.tokens)}</b> tokens of text
          {old !== undefined && <> (<span class="num">{signed(count.tokens - old)}</span>)</>}
          {count.basis !== "exact" && <>, {count.basis}</>}
        </>
      )}
    </span>
  );
}
