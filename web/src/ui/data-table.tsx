/** A table of numbers whose rows become cards on a phone. */

import type { ComponentChildren } from "preact";

export interface DataColumn<T> {
  title: string;
  show: (row: T) => ComponentChildren;
  /** Not a number, so aligned to the left. */
  text?: boolean;
}

/** The first column names the row. Roles are explicit, since browsers drop those of a table that is laid out otherwise. */
export function DataTable<T>({ label, columns: [first, ...rest], rows }: {
  label: string;
  columns: [DataColumn<T>, ...DataColumn<T>[]];
  rows: readonly T[];
}) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table class="plain" role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">{first.title}</th>
            {rest.map(({ title, text }) => <th key={title} role="columnheader" scope="col" class={text ? "" : "right"}>{title}</th>)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row, index) => (
            <tr key={index} role="row">
              <th role="rowheader" scope="row">{first.show(row)}</th>
              {rest.map(({ title, show, text }) => <td key={title} role="cell" data-title={title} class={text ? "" : "num right"}>{show(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
