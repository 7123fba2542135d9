/** Redirects from a message to the context of the answer, or of the question it answers. */

import { useEffect } from "preact/hooks";

import { query } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextList } from "../api/types";
import { contextPath } from "../logic/routes";
import { go } from "../router";
import { Heading, Loaded, EmptyState } from "../ui/states";

export function MessagePage({ id }: { id: string }) {
  const read = useResource<ContextList>(`/contexts${query({ message: id, limit: 1 })}`);
  const found = read.data?.contexts[0]?.id;
  useEffect(() => {
    if (found) go(contextPath(found), { replace: true });
  }, [found]);
  return (
    <>
      <Heading title="Context of a message" />
      <Loaded of={read} rows={10}>
        {() => !found && <EmptyState title="No context found" text={`No context was built for message ${id}, or its record was deleted. Imported messages and messages between people have none.`} action={<a href="/">Show contexts</a>} />}
      </Loaded>
    </>
  );
}
