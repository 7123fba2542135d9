/** Tables of a context: the pools of its policy with their limits and usage, and the kinds of content in it. */

import type { KindUse, PoolUse } from "../api/types";
import { plural, whole } from "../logic/format";
import { type DataColumn, DataTable } from "./data-table";
import { FoldSection } from "./fold";
import { Explain } from "./help";

const POOLS: [DataColumn<PoolUse>, ...DataColumn<PoolUse>[]] = [
  { title: "Pool", show: (pool) => pool.name },
  { title: "Use", text: true, show: ({ used, limit }) => <span class="meter" aria-hidden="true" style={{ "--share": String(Math.min(1, used / Math.max(1, limit))) }} /> },
  { title: "Used", show: (pool) => whole(pool.used) },
  { title: "Limit", show: (pool) => whole(pool.limit) },
  { title: "Borrowed", show: (pool) => (pool.borrowed ? whole(pool.borrowed) : "–") },
  { title: "Items", show: (pool) => whole(pool.items) },
];

const KINDS: [DataColumn<KindUse>, ...DataColumn<KindUse>[]] = [
  { title: "Kind", show: (kind) => kind.name },
  { title: "Tokens", show: (kind) => whole(kind.tokens) },
  { title: "Items", show: (kind) => whole(kind.items) },
];

export function Pools({ pools }: { pools: PoolUse[] }) {
  if (pools.length === 0) return null;
  return (
    <FoldSection id="pools-heading" title="Pools">
      <p class="small muted">Parts of the window with limits of their own, in tokens. <Explain term="Pool" /></p>
      <DataTable label="Pools, in tokens" columns={POOLS} rows={pools} />
    </FoldSection>
  );
}

export function Kinds({ kinds, pinned }: { kinds: KindUse[]; pinned: number }) {
  if (kinds.length === 0) return null;
  return (
    <FoldSection id="kinds-heading" title="Kinds of content">
      {pinned > 0 && <p class="small muted">Here, pinned items count as what they are, such as memories. In the window above, their {plural(pinned, "token")} are a part of their own.</p>}
      <DataTable label="Kinds of content" columns={KINDS} rows={kinds} />
    </FoldSection>
  );
}
