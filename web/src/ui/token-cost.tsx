/** What a text costs, live: its tokens, and how many more or less than before. */

import { useCount } from "../api/counting";
import { signed, whole } from "../logic/format";

export function TokenCost({ text, before }: { text: string; before?: number | undefined }) {
  const count = useCount(text);
  return (
    <span class="cost" aria-live="polite">
      {count === null ? "counting…" : (
        <>
          <b class="num">{whole(count.tokens)}</b> tokens
          {before !== undefined && <> (<span class="num">{signed(count.tokens - before)}</span>)</>}
          {count.basis !== "exact" && <>, {count.basis}</>}
        </>
      )}
    </span>
  );
}
