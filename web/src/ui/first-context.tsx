/** How to create the first context. */

import { EmptyState, Shell } from "./states";

export function FirstContext({ filtered = false }: { filtered?: boolean }) {
  if (filtered) {
    return <EmptyState title="No matching contexts" text="Try removing a filter. New matching contexts appear automatically." />;
  }
  return (
    <EmptyState title="No contexts yet" text="A context is what a model sees for one answer. Contexts appear here as soon as any process builds one with this store.">
      <h3>Build one without calling a model</h3>
      <Shell>{'brimful message add "Hello!" --room hello && brimful assemble --room hello --model gpt-4o'}</Shell>
      <h3>Chat with a model (needs its API key)</h3>
      <Shell>brimful chat --room hello --model gpt-4o-mini</Shell>
      <h3>Point your client at this server (if it was started with an upstream)</h3>
      <Shell>{`client = openai.OpenAI(base_url="${location.origin}/v1", api_key="none")`}</Shell>
    </EmptyState>
  );
}
