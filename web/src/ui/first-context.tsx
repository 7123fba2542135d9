/** How to create the first context, with commands that work on this server. */

import { BASE, key } from "../api/client";
import { useResource } from "../api/resource";
import type { ModelList } from "../api/types";
import { postCurl } from "../logic/snippets";
import { EmptyState, Shell } from "./states";

export function FirstContext({ filtered = false, paused = false }: { filtered?: boolean; paused?: boolean }) {
  if (filtered) {
    const hint = paused ? "The list is paused: resume it to see new contexts." : "New matching contexts appear automatically.";
    return <EmptyState title="No matching contexts" text={`Try removing a filter. ${hint}`} />;
  }
  return (
    <EmptyState title="No contexts yet" text="A context is what a model sees for one answer. Contexts appear here as soon as any process builds one with this server's store.">
      <h3>Build one now, without a model or its API key</h3>
      <Shell>{`${post("/rooms", { id: "hello", user: "ada" })} && \\\n${post("/memories", { content: "Ada is allergic to hazelnuts.", user: "ada" })} && \\\n${post("/rooms/hello/assemble", { content: "Which cake should I bake?", user: "ada", model: "gpt-4o", save: true })}`}</Shell>
      <Proxy />
    </EmptyState>
  );
}

/** A call of this server's API as a command. */
export function post(where: string, body: unknown): string {
  return postCurl(location.origin + BASE + where, body, key.value !== "");
}

/** How to send requests through this server, or how to start it so that they can be. */
function Proxy() {
  const upstreams = useResource<ModelList>("/models").data?.upstreams;
  if (upstreams === undefined) return null;
  if (upstreams.length === 0) {
    return (
      <>
        <h3>Or see the requests of your own program</h3>
        <p>This server has no upstream, so it shows contexts but forwards no requests. Start it with one, and point your client at it:</p>
        <Shell>{`brimful serve --upstream https://api.openai.com/v1 --listen ${location.host}`}</Shell>
      </>
    );
  }
  return (
    <>
      <h3>Or point your program at this server, which forwards its requests to {upstreams.join(", ")}</h3>
      <Shell>{`export OPENAI_BASE_URL=${location.origin}/v1`}</Shell>
    </>
  );
}
