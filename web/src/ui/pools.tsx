/** Tables of a context: the pools of its policy with their limits and usage, and the kinds of content in it. */

import type { KindUse, PoolUse } from "../api/types";
import { plural, whole } from "../logic/format";

export function Pools({ pools }: { pools: PoolUse[] }) {
  if (pools.length === 0) return null;
  return (
    <section aria-labelledby="pools-heading">
      <h2 id="pools-heading">Pools</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of pools">
        <table class="plain">
          <thead><tr><th scope="col">Pool</th><th scope="col">Use</th><th scope="col" class="right">Used</th><th scope="col" class="right">Limit</th><th scope="col" class="right">Borrowed</th><th scope="col" class="right">Items</th></tr></thead>
          <tbody>
            {pools.map((pool) => (
              <tr key={pool.name}>
                <th scope="row">{pool.name}</th>
                <td class="meter-cell"><span class="meter" aria-hidden="true" style={{ "--share": String(Math.min(1, pool.used / Math.max(1, pool.limit))) }} /></td>
                <td class="num right">{whole(pool.used)}</td>
                <td class="num right">{whole(pool.limit)}</td>
                <td class="num right">{pool.borrowed ? whole(pool.borrowed) : "–"}</td>
                <td class="num right">{whole(pool.items)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Kinds({ kinds, pinned }: { kinds: KindUse[]; pinned: number }) {
  if (kinds.length === 0) return null;
  return (
    <section aria-labelledby="kinds-heading">
      <h2 id="kinds-heading">Kinds of content</h2>
      {pinned > 0 && <p class="small muted">Here, pinned items count as what they are, such as memories. In the window above, their {plural(pinned, "token")} are a part of their own.</p>}
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of kinds">
        <table class="plain">
          <thead><tr><th scope="col">Kind</th><th scope="col" class="right">Tokens</th><th scope="col" class="right">Items</th></tr></thead>
          <tbody>
            {kinds.map((kind) => (
              <tr key={kind.name}>
                <th scope="row">{kind.name}</th>
                <td class="num right">{whole(kind.tokens)}</td>
                <td class="num right">{whole(kind.items)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
