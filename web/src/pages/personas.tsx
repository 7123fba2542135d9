/** Personas. */

import { useState } from "preact/hooks";

import { useChange } from "../api/change";
import { json, path } from "../api/client";
import { countModel } from "../api/counting";
import { useDraft } from "../api/draft";
import type { Persona, PersonaList } from "../api/records";
import { usePages } from "../api/pages";
import { useResource } from "../api/resource";
import { lines } from "../logic/text";
import { plural } from "../logic/format";
import { personaPath } from "../logic/routes";
import { go } from "../router";
import { CharacterForm, mergedCharacter, PERSONA_FIELDS } from "../ui/character-form";
import { CountModel } from "../ui/count-model";
import { Confirm, Dialog } from "../ui/dialog";
import { TextArea, TextField } from "../ui/fields";
import { More } from "../ui/more";
import { toDraft, toNote, NotesForm } from "../ui/notes-form";
import { Heading, Loaded, EmptyState } from "../ui/states";
import { TokenCost } from "../ui/token-cost";

export function PersonasPage() {
  const list = usePages<PersonaList>("/personas", { model: countModel.value }, "after");
  const [find, setFind] = useState("");
  const [creating, setCreating] = useState(false);
  const personas = list.pages.flatMap((page) => page.personas);
  const shown = personas.filter((each) => `${each.id} ${each.name} ${each.prompt}`.toLowerCase().includes(find.toLowerCase()));
  return (
    <>
      <Heading title="Personas"><button type="button" class="main" onClick={() => setCreating(true)}>New persona</button></Heading>
      <div class="filters" role="search" aria-label="Search personas">
        <TextField label="Search" type="search" grow value={find} placeholder="id, name or prompt" onInput={setFind} />
        <CountModel />
      </div>
      <Loaded of={list.first}>
        {() => personas.length === 0 ? (
          <EmptyState title="No personas yet" text="A persona is the character the model plays, with its own prompt, model and policy. Create one with the button above." />
        ) : (
          <>
            <ul class="records" aria-label="Personas">
              {shown.map((each) => (
                <li key={each.id} class="record">
                  <p class="record-text"><a href={personaPath(each.id)}>{each.name || each.id}</a></p>
                  {each.prompt && <p class="small clamp">{each.prompt}</p>}
                  <div class="record-line small">
                    <code>{each.id}</code>
                    {each.model && <span class="muted">{each.model}</span>}
                    {each.policy && <span class="muted">policy {each.policy}</span>}
                    <span>{plural(each.tokens, "token")} of text in every context, plus its role</span>
                  </div>
                </li>
              ))}
            </ul>
            {shown.length === 0 && <p class="muted">No match among the personas loaded so far.</p>}
            <More of={list} />
          </>
        )}
      </Loaded>
      {creating && <NewPersona onClose={() => setCreating(false)} />}
    </>
  );
}

function NewPersona({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState("");
  const [prompt, setPrompt] = useState("");
  const change = useChange();
  const create = async (event: Event) => {
    event.preventDefault();
    if (await change.run(() => json("/personas", { method: "POST", body: { id: id.trim(), prompt } }))) go(personaPath(id.trim()));
  };
  return (
    <Dialog title="New persona" onClose={onClose} wide>
      <form onSubmit={(event) => void create(event)}>
        <TextField label="ID" value={id} required onInput={setId} />
        <TextArea label="Prompt" value={prompt} onInput={setPrompt} hint={<TokenCost text={prompt} />} />
        {change.error && <p class="bad" role="alert">{change.error}</p>}
        <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Create</button></div>
      </form>
    </Dialog>
  );
}

export function PersonaPage({ id }: { id: string }) {
  const read = useResource<Persona>(path`/personas/${id}`);
  const [removing, setRemoving] = useState(false);
  const change = useChange();
  const remove = async () => {
    if (await change.run(() => json(path`/personas/${id}`, { method: "DELETE" }))) go("/personas");
  };
  return (
    <>
      <Heading title={read.data?.name || id}>
        <a class="button" href={`/?${new URLSearchParams({ persona: id })}`}>Contexts</a>
        <a class="button" href={`/memories?${new URLSearchParams({ persona: id })}`}>Memories</a>
        <button type="button" class="danger" onClick={() => setRemoving(true)}>Remove</button>
      </Heading>
      <Loaded of={read}>{(persona) => <Settings key={JSON.stringify(persona)} persona={persona} onSaved={read.reload} />}</Loaded>
      {removing && (
        <Confirm title={`Remove ${read.data?.name || id}?`} action="Remove" busy={change.busy} error={change.error} onYes={() => void remove()} onClose={() => setRemoving(false)}>
          <p>This also removes the memories that belong to it. Rooms are not affected.</p>
        </Confirm>
      )}
    </>
  );
}

function Settings({ persona, onSaved }: { persona: Persona; onSaved: () => void }) {
  const { draft, put, changes } = useDraft({
    name: persona.name, prompt: persona.prompt, focus: persona.focus, model: persona.model, provider: persona.provider, policy: persona.policy,
    completion: persona.completion === null ? "" : String(persona.completion), lorebooks: persona.lorebooks.join("\n"),
    notes: persona.notes.map(toDraft), character: persona.character,
  });
  const change = useChange();
  const save = async (event: Event) => {
    event.preventDefault();
    const body = changes(({ completion, lorebooks, notes, ...rest }) => (
      { ...rest, completion: completion ? Number(completion) : null, lorebooks: lines(lorebooks), notes: notes.map(toNote) }
    ));
    const where = path`/personas/${persona.id}`;
    const saved = await change.run(async () => json(where, { method: "PUT", body: { ...body, ...(await mergedCharacter(where, persona, body)) } }));
    if (saved) onSaved();
  };
  return (
    <form class="form" aria-label="Persona" onSubmit={(event) => void save(event)}>
      <TextField label="Name" value={draft.name} onInput={(name) => put({ name })} />
      <TextArea label="Prompt" rows={8} value={draft.prompt} onInput={(prompt) => put({ prompt })} hint={<>in every context: <TokenCost text={draft.prompt} was={persona.prompt} /></>} />
      <TextField label="Focus, one more thing to search for" value={draft.focus} placeholder="none" onInput={(focus) => put({ focus })} />
      <div class="columns">
        <TextField label="Model" value={draft.model} placeholder="default" onInput={(model) => put({ model })} />
        <TextField label="Provider" value={draft.provider} placeholder="default for the model" onInput={(provider) => put({ provider })} />
        <TextField label="Policy" value={draft.policy} placeholder="default" onInput={(policy) => put({ policy })} />
        <TextField label="Reserve for answers, in tokens" type="number" min={1} value={draft.completion} placeholder="from the policy" onInput={(completion) => put({ completion })} />
        <TextArea label="Lorebooks, one id per line" rows={3} value={draft.lorebooks} onInput={(lorebooks) => put({ lorebooks })} />
      </div>
      <CharacterForm character={draft.character} fields={PERSONA_FIELDS} title="Character" begin="Add a character" onInput={(character) => put({ character })} />
      <NotesForm notes={draft.notes} onInput={(notes) => put({ notes })} />
      {change.error && <p class="bad" role="alert">{change.error}</p>}
      <div class="buttons"><button type="submit" class="main" disabled={change.busy}>Save</button></div>
    </form>
  );
}
