/** How the first context is made. */

import { Patience, Shell } from "./states";

export function FirstContext({ filtered = false }: { filtered?: boolean }) {
  if (filtered) {
    return <Patience title="No context is like that" text="Take something out of the filter above. New contexts that match it appear by themselves." />;
  }
  return (
    <Patience title="No context yet" text="A context is what a model sees for one answer. As soon as one is built with this store, by any process, it appears here.">
      <h3>Talk to a model, in a room that remembers</h3>
      <Shell>brimful chat --room hello --model gpt-4o-mini</Shell>
      <h3>Or point your own client at this server</h3>
      <Shell>{`client = openai.OpenAI(base_url="${location.origin}/v1", api_key="none")`}</Shell>
    </Patience>
  );
}
