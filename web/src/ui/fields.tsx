/** Form fields. */

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

interface Field {
  label: string;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  required?: boolean;
}

export function TextField({ label, value, onInput, hint, required, list, type = "text", grow = false, ...more }: Field & {
  /** Take the remaining width. */
  grow?: boolean;
  list?: readonly string[];
  type?: "text" | "search" | "number" | "date";
  min?: number;
  max?: number;
  step?: number | "any";
  placeholder?: string;
}) {
  const id = useId();
  return (
    <label class={grow ? "field grow" : "field"}>
      <span>{label}</span>
      <input
        type={type} value={value} required={required} list={list && id} autocomplete="off"
        aria-describedby={hint ? `${id}-hint` : undefined} onInput={(event) => onInput(event.currentTarget.value)} {...more}
      />
      {list && <datalist id={id}>{list.map((each) => <option key={each} value={each} />)}</datalist>}
      {hint && <span class="hint" id={`${id}-hint`}>{hint}</span>}
    </label>
  );
}

/** A number from 0 to 1, with any number of digits. */
export function ShareField({ label, value, onInput }: { label: string; value: string; onInput: (value: string) => void }) {
  return <TextField label={label} type="number" min={0} max={1} step="any" required value={value} onInput={onInput} hint="0 to 1" />;
}

/** Up to four decimals. */
export function formatShare(value: number): string {
  return String(Number(value.toFixed(4)));
}

export function TextArea({ label, value, onInput, hint, required, rows = 5 }: Field & { rows?: number }) {
  const id = useId();
  return (
    <label class="field">
      <span>{label}</span>
      <textarea rows={rows} value={value} required={required} aria-describedby={hint ? id : undefined} onInput={(event) => onInput(event.currentTarget.value)} />
      {hint && <span class="hint" id={id}>{hint}</span>}
    </label>
  );
}

export function Choice({ label, value, options, onInput, hint }: Omit<Field, "required"> & { options: readonly (readonly [string, string])[] }) {
  const id = useId();
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} aria-describedby={hint ? id : undefined} onChange={(event) => onInput(event.currentTarget.value)}>
        {options.map(([name, text]) => <option key={name} value={name}>{text}</option>)}
      </select>
      {hint && <span class="hint" id={id}>{hint}</span>}
    </label>
  );
}

export function Check({ label, checked, onInput }: { label: string; checked: boolean; onInput: (value: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onInput(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** A filter field that applies when a suggestion is chosen, the field is cleared, or Enter is pressed. */
export function NameField({ label, value, known, onChoose }: {
  label: string;
  value: string;
  known: readonly string[];
  onChoose: (name: string) => void;
}) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null); // null: nothing is being typed
  const choose = (text: string) => {
    setTyped(null);
    onChoose(text);
  };
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="search" value={typed ?? value} list={id} placeholder="all" autocomplete="off" spellcheck={false}
        onInput={({ currentTarget: { value: text } }) => (text === "" || known.includes(text) ? choose(text) : setTyped(text))}
        onChange={(event) => choose(event.currentTarget.value.trim())}
      />
      <datalist id={id}>{known.map((each) => <option key={each} value={each} />)}</datalist>
    </label>
  );
}
