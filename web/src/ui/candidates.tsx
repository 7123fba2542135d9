/** The table of all candidates, fast with thousands of rows. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Decision } from "../api/types";
import { charged, type Column, type Filter, filtered, isUseful, type Order, placeOf, sorted, countBy } from "../logic/candidates";
import { look } from "../logic/components";
import { GLOSSARY, type Term } from "../logic/glossary";
import { plural, reasonText, relevance, score, whole } from "../logic/format";
import { nextRow, visibleRows } from "../logic/rows";
import { Explain } from "./help";
import { FormMark, OutcomeBadge } from "./outcome";

interface Shown {
  name: Column;
  title: string;
  about: string;
  term?: Term;
  show: (decision: Decision, decisions: readonly Decision[]) => ComponentChildren;
}

const part = (name: "priority" | "importance" | "recency") => (each: Decision) => (each.score ? score(each.score[name]) : "");

const COLUMNS: Shown[] = [
  { name: "position", title: "Pos.", about: "Position in the request", show: (each) => (each.position === null ? "–" : each.position + 1) },
  { name: "outcome", title: "Outcome", about: "Outcome", show: (each) => <OutcomeBadge outcome={each.outcome} /> },
  { name: "item", title: "Item", about: "Excerpt", show: (each) => <Item decision={each} /> },
  { name: "kind", title: "Kind", about: "Kind", show: (each) => each.kind },
  { name: "pool", title: "Pool", about: "Pool", term: "Pool", show: (each) => each.pool || "–" },
  { name: "reason", title: "Reason", about: "Reason", show: (each) => <span title={each.why}>{reasonText(each.reason)}</span> },
  { name: "score", title: "Score", about: "Score", term: "Score", show: (each) => each.score && <ScoreBar decision={each} /> },
  { name: "priority", title: "Prio.", about: "Priority (unweighted)", show: part("priority") },
  { name: "importance", title: "Imp.", about: "Importance (unweighted)", show: part("importance") },
  { name: "relevance", title: "Rel.", about: "Relevance", term: "Relevance", show: (each, all) => each.score && <RelevanceWords text={each.kind === "tool-definition" ? score(each.score.relevance) : relevance(each.score.relevance, placeOf(each, all))} /> },
  { name: "recency", title: "Rec.", about: "Recency (unweighted)", show: part("recency") },
  { name: "tokens", title: "Tokens", about: "Tokens in the window, with label or role; of what was left out, those of its text", show: (each) => whole(charged(each)) },
  { name: "rank", title: "Place", about: "Place in its pool", term: "Place", show: (each) => (each.rank ? whole(each.rank) : "–") },
];

const NARROW = matchMedia("(max-width: 640px)");
const PAGE = 12;

function Item({ decision }: { decision: Decision }) {
  return (
    <span class="item">
      <span class={`swatch ${look(decision.component)}`} aria-hidden="true" />
      <span class="item-text">{decision.excerpt || <em>no text</em>}</span>
      <FormMark decision={decision} brief />
      <code class="item-id">{decision.id}</code>
    </span>
  );
}

function ScoreBar({ decision }: { decision: Decision }) {
  const value = decision.score?.total ?? 0;
  return <span class="score" style={{ "--share": String(Math.min(1, Math.max(0, value))) }}>{score(value)}</span>;
}

/** As many words as fit. */
function RelevanceWords({ text }: { text: string }) {
  return <span title={text}>{text}</span>;
}

export function Candidates({ decisions, filter, order, selected, onFilter, onOrder, onOpen, onFind }: {
  decisions: Decision[];
  filter: Filter;
  order: Order;
  selected: string;
  onFilter: (filter: Filter) => void;
  onOrder: (order: Order) => void;
  onOpen: (id: string) => void;
  onFind: (text: string) => void;
}) {
  const rows = useMemo(() => sorted(filtered(decisions, filter), order), [decisions, filter, order]);
  const columns = useMemo(() => COLUMNS.filter(({ name }) => isUseful(name, decisions, order, filter)), [decisions, filter, order]);
  return (
    <div class="candidates">
      <Filters decisions={decisions} columns={columns} filter={filter} order={order} onFilter={onFilter} onOrder={onOrder} />
      <div class="candidate-line small muted">
        <p role="status">
          {rows.length === decisions.length ? plural(rows.length, "candidate") : `${whole(rows.length)} of ${plural(decisions.length, "candidate")}`}
        </p>
        {columns.map(({ name, term }) => term && <span key={name}>{term} <Explain term={term} /></span>)}
      </div>
      <Rows rows={rows} decisions={decisions} columns={columns} order={order} selected={selected} onOrder={onOrder} onOpen={onOpen} />
      {rows.length === 0 && <NoRows text={filter.text.trim()} onFind={onFind} />}
    </div>
  );
}

/** The search text may belong to something that was no candidate. */
function NoRows({ text, onFind }: { text: string; onFind: (text: string) => void }) {
  return (
    <div class="note">
      <p>No candidate matches.</p>
      {text && <p><button type="button" onClick={() => onFind(text)}>Search everything that was not a candidate</button></p>}
    </div>
  );
}

function Filters({ decisions, columns, filter, order, onFilter, onOrder }: {
  decisions: Decision[];
  columns: Shown[];
  filter: Filter;
  order: Order;
  onFilter: (filter: Filter) => void;
  onOrder: (order: Order) => void;
}) {
  const choices = useMemo(
    () => ({ outcome: countBy(decisions, "outcome"), kind: countBy(decisions, "kind"), pool: countBy(decisions, "pool") }),
    [decisions],
  );
  const select = (name: "outcome" | "kind" | "pool", label: string, first: [string, string][]) => (
    <label class="field">
      <span>{label}</span>
      <select value={filter[name]} onChange={(event) => onFilter({ ...filter, [name]: event.currentTarget.value })}>
        {first.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
        {choices[name].map(([value, count]) => <option key={value} value={value}>{`${value} (${whole(count)})`}</option>)}
      </select>
    </label>
  );
  return (
    <div class="filters" role="search" aria-label="Filter candidates">
      <label class="field grow">
        <span>Search</span>
        <input type="search" placeholder="text, id or reason" value={filter.text} onInput={(event) => onFilter({ ...filter, text: event.currentTarget.value })} />
      </label>
      {select("outcome", "Outcome", [["", "all"], ["in", "included"], ["out", "left out"]])}
      {select("kind", "Kind", [["", "all"]])}
      {select("pool", "Pool", [["", "all"]])}
      <label class="field only-narrow">
        <span>Sort by</span>
        <select value={order.column} onChange={(event) => onOrder(nextOrder(order, event.currentTarget.value as Column))}>
          {columns.map(({ name, about }) => <option key={name} value={name}>{about}</option>)}
        </select>
      </label>
    </div>
  );
}

const DESCENDING_FIRST: Column[] = ["score", "priority", "importance", "relevance", "recency", "tokens"];

/** The order after a click on a column: the useful direction first, reversed by the next click. */
function nextOrder(order: Order, column: Column): Order {
  return order.column === column ? { column, down: !order.down } : { column, down: DESCENDING_FIRST.includes(column) };
}

function Rows({ rows, decisions, columns, order, selected, onOrder, onOpen }: {
  rows: Decision[];
  /** Those of all rows, and of rows that a filter hides. */
  decisions: readonly Decision[];
  columns: Shown[];
  order: Order;
  selected: string;
  onOrder: (order: Order) => void;
  onOpen: (id: string) => void;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [narrow, setNarrow] = useState(NARROW.matches);
  const [at, setAt] = useState(0);
  const wantsFocus = useRef(false);
  const rowHeight = narrow ? 76 : 40;

  useEffect(() => {
    const turn = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", turn);
    return () => NARROW.removeEventListener("change", turn);
  }, []);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => (watch.disconnect(), element.removeEventListener("scroll", measure));
  }, []);
  useEffect(() => {
    ref.current?.scrollTo(0, 0);
    setAt(0);
  }, [rows]);

  const focus = Math.min(at, rows.length - 1);
  const { from, to } = visibleRows(view.top, view.height, rowHeight, rows.length);

  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    ref.current?.querySelector<HTMLElement>(`[data-row="${focus}"]`)?.focus({ preventScroll: true });
  });

  const moveTo = (next: number) => {
    const element = ref.current;
    if (!element) return;
    const head = element.querySelector("thead")?.offsetHeight ?? 0;
    const top = next * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight + head > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + rowHeight + head - element.clientHeight;
    }
    wantsFocus.current = true;
    setView({ top: element.scrollTop, height: element.clientHeight });
    setAt(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    if (!row) return;
    const next = nextRow(event.key, focus, rows.length, PAGE);
    if (next !== null) moveTo(next);
    else if (event.key === "Enter" || event.key === " ") onOpen(rows[focus]?.id ?? "");
    else return;
    event.preventDefault();
  };

  return (
    <div class="rows" ref={ref} onKeyDown={onKeyDown}>
      <table role="grid" aria-label="Candidates" aria-rowcount={rows.length + 1}>
        <thead role="rowgroup">
          <tr role="row" aria-rowindex={1}>
            {columns.map(({ name, title, about, term }) => (
              <th key={name} role="columnheader" scope="col" class={`col-${name}`} aria-sort={order.column !== name ? "none" : order.down ? "descending" : "ascending"}>
                <button type="button" title={term ? GLOSSARY[term] : about} onClick={() => onOrder(nextOrder(order, name))}>
                  {title}<span class="arrow" aria-hidden="true">{order.column !== name ? "" : order.down ? "↓" : "↑"}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {from > 0 && <Gap height={from * rowHeight} />}
          {rows.slice(from, to).map((each, offset) => {
            const index = from + offset;
            return (
              <tr
                key={each.id + index} role="row" data-row={index} aria-rowindex={index + 2} aria-selected={each.id === selected}
                tabIndex={index === focus ? 0 : -1} onClick={() => (setAt(index), onOpen(each.id))} onFocus={() => setAt(index)}
              >
                {columns.map(({ name, show }) => <td key={name} role="gridcell" class={`col-${name}`}>{show(each, decisions)}</td>)}
              </tr>
            );
          })}
          {to < rows.length && <Gap height={(rows.length - to) * rowHeight} />}
        </tbody>
      </table>
    </div>
  );
}

function Gap({ height }: { height: number }) {
  return <tr role="presentation" class="gap" aria-hidden="true"><td role="presentation" style={{ height: `${height}px` }} /></tr>;
}
