/** What the model saw when it gave this answer, or answered this question: the way from a message to its context. */

import { useEffect } from "preact/hooks";

import { query } from "../api/client";
import { useResource } from "../api/resource";
import type { ContextList } from "../api/types";
import { contextPath } from "../logic/routes";
import { go } from "../router";
import { Heading, Loaded, Patience } from "../ui/states";

export function MessagePage({ id }: { id: string }) {
  const read = useResource<ContextList>(`/contexts${query({ message: id, limit: 1 })}`);
  const found = read.data?.contexts[0]?.id;
  useEffect(() => {
    if (found) go(contextPath(found), { replace: true });
  }, [found]);
  return (
    <>
      <Heading title="The context of a message" />
      <Loaded of={read} rows={10}>
        {() => !found && <Patience title="No context is kept" text={`None was built for the message ${id}, or its record is gone. What was imported, or said by people to people, has none.`} action={<a href="/">See what happens now</a>} />}
      </Loaded>
    </>
  );
}
