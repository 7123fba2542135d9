/** Redirects from a memory to the newest context that could have included it, where its panel says why it did or did not. */

import { useEffect } from "preact/hooks";

import { path } from "../api/client";
import type { Memory } from "../api/records";
import { useResource } from "../api/resource";
import type { ContextList } from "../api/types";
import { canSee } from "../logic/names";
import { itemPath } from "../logic/routes";
import { go } from "../router";
import { FirstContext } from "../ui/first-context";
import { Heading, Loaded } from "../ui/states";

export function WhyPage({ memory: id }: { memory: string }) {
  const memory = useResource<Memory>(path`/memories/${id}`);
  const contexts = useResource<ContextList>("/contexts?limit=500");
  const rows = contexts.data?.contexts ?? [];
  const found = memory.data && (rows.find((row) => canSee(row, memory.data as Memory)) ?? rows[0]);
  useEffect(() => {
    if (found) go(itemPath(found.id, id), { replace: true });
  }, [found?.id]);
  return (
    <>
      <Heading title="Why was this memory not in the last context?" />
      <Loaded of={memory} rows={4}>{() => <Loaded of={contexts} rows={8}>{() => !found && <FirstContext />}</Loaded>}</Loaded>
    </>
  );
}
