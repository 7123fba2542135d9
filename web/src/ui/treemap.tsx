/** The contents of the window as a treemap: the area of each item is its cost in tokens. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Band, Decision } from "../api/types";
import { included } from "../logic/candidates";
import { inDisplayOrder, look, UNUSED, title } from "../logic/components";
import { byDay, type Day, isDay } from "../logic/days";
import { formText, plural, short, whole } from "../logic/format";
import { type Box, type Cell, neighbour, treemap } from "../logic/treemap";

interface Part {
  name: string;
  tokens: number;
  items: Decision[];
}

interface Tile extends Box {
  part: string;
  item: Decision | null;
  /** The messages of a day that have one tile together. */
  day?: Day;
  label: string;
  tokens: number;
}

const NARROW = 560; // px: tiles have no room for words in a smaller picture, so a list takes its place
const FIRST = 3; // items of a part in the list, until all are shown
const MAX_LISTED = 200; // items of a part in the list; the table of candidates has all of them
const HOVER = matchMedia("(hover: hover)");
const MAX_TILES = 900; // more are indistinguishable, and slow on phones
const HEAD = 1.25; // rem, height of a part's title
const LINE = 0.9; // rem
const ASPECT = 2.4; // of a tile, width to height: a line of text needs more width

/** The filled parts with their items. Parts without items (the format) are included. */
function parts(bands: Band[], decisions: Decision[], chosen: string): Part[] {
  const inside = new Map<string, Decision[]>();
  for (const each of decisions) {
    if (included(each)) inside.set(each.component, [...(inside.get(each.component) ?? []), each]);
  }
  return inDisplayOrder(bands)
    .filter((band) => band.tokens > 0 && !UNUSED.has(band.name) && (!chosen || band.name === chosen))
    .map((band) => ({ name: band.name, tokens: band.tokens, items: inside.get(band.name) ?? [] }));
}

interface Head extends Box {
  part: string;
  /** The name of an open day, if it is not the head of a part. */
  day: string;
}

/** The tiles and heads of all parts. Of many recent messages, each day is one tile, except the one that is open. */
function tiles(all: Part[], open: string, { width, height, rem }: { width: number; height: number; rem: number }): { tiles: Tile[]; heads: Head[] } {
  const heads: Head[] = [];
  const head = HEAD * rem;
  const found: Tile[] = [];
  for (const cell of wideTreemap(all, (part) => part.tokens, { x: 0, y: 0, width, height })) {
    const part = cell.value;
    const headed = cell.height > 3 * head && cell.width > 60 && part.items.length > 1;
    if (headed) heads.push({ part: part.name, day: "", x: cell.x, y: cell.y, width: cell.width, height: head });
    const entries = part.name === "recent" ? byDay(part.items) : part.items;
    for (const tile of partTiles(part, entries, headed ? below(cell, head) : cell)) {
      if (tile.day?.name !== open) {
        found.push(tile);
        continue;
      }
      const top = Math.min(head, tile.height / 2);
      heads.push({ part: part.name, day: open, x: tile.x, y: tile.y, width: tile.width, height: top });
      found.push(...partTiles(part, tile.day.items, below(tile, top)));
    }
  }
  return { tiles: found, heads };
}

/** A treemap whose tiles are wider than high. */
function wideTreemap<T>(values: readonly T[], weigh: (value: T) => number, box: Box): Cell<T>[] {
  const cells = treemap(values, weigh, { ...box, x: 0, width: box.width / ASPECT });
  return cells.map((cell) => ({ ...cell, x: box.x + cell.x * ASPECT, width: cell.width * ASPECT }));
}

/** A box without its head. */
function below({ x, y, width, height }: Box, head: number): Box {
  return { x, y: y + head, width, height: height - head };
}

function partTiles(part: Part, entries: readonly (Decision | Day)[], box: Box): Tile[] {
  if (entries.length === 0) {
    return [{ ...box, part: part.name, item: null, label: title(part.name), tokens: part.tokens }];
  }
  const all = entries.map((entry): Omit<Tile, keyof Box> => (isDay(entry)
    ? { part: part.name, item: null, day: entry, label: `${entry.name}, ${plural(entry.items.length, "message")}`, tokens: entry.tokens }
    : { part: part.name, item: entry, label: entry.excerpt || entry.id, tokens: entry.cost }));
  const large = all.sort((a, b) => b.tokens - a.tokens);
  const rest = large.slice(MAX_TILES);
  const shown = large.slice(0, MAX_TILES);
  const left = rest.reduce((sum, each) => sum + each.tokens, 0);
  if (left > 0) shown.push({ part: part.name, item: null, label: `${plural(rest.length, "more item")} in this part`, tokens: left });
  return wideTreemap(shown, (tile) => Math.max(1, tile.tokens), box).map(({ value, x, y, width, height }) => ({ ...value, x, y, width, height }));
}

export function Treemap({ bands, decisions, chosen, selected, onOpen }: {
  bands: Band[];
  decisions: Decision[];
  chosen: string;
  selected: string;
  onOpen?: (id: string) => void;
}) {
  const ref = useRef<HTMLElement>(null);
  const map = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0, rem: 16 });
  const [at, setAt] = useState(0);
  const [over, setOver] = useState<Tile | null>(null);
  const isNarrow = size.width > 0 && size.width < NARROW;

  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setSize({ width: element.clientWidth, height: map.current?.clientHeight ?? 0, rem: rem() }));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const [openDay, setOpenDay] = useState<string | null>(null);
  useEffect(() => {
    if (openDay !== null) map.current?.querySelector<HTMLElement>(openDay ? "button.tile-head" : ".tile[aria-expanded]")?.focus({ preventScroll: true });
  }, [openDay]);

  const shown = useMemo(() => parts(bands, decisions, chosen), [bands, decisions, chosen]);
  const open = openDay ?? dayOf(shown, selected);
  const drawn = useMemo(() => (isNarrow ? { tiles: [], heads: [] } : tiles(shown, open, size)), [shown, open, size, isNarrow]);
  const focus = Math.min(at, drawn.tiles.length - 1);

  const onKeyDown = (event: KeyboardEvent) => {
    const next = neighbour(drawn.tiles, focus, event.key);
    if (next < 0) return;
    event.preventDefault();
    setAt(next);
    setOver(drawn.tiles[next] ?? null);
    (map.current?.querySelectorAll<HTMLElement>(".tile")[next])?.focus();
  };

  if (isNarrow) return <figure class="picture" ref={ref}>{shown.map((part) => <PartList key={part.name} part={part} open={part.tokens === Math.max(...shown.map((each) => each.tokens))} selected={selected} onOpen={onOpen} />)}</figure>;
  return (
    <figure class="picture" ref={ref}>
      <div ref={map} class="treemap" role="group" aria-label="Contents of the window by tokens" onKeyDown={onKeyDown} onPointerLeave={() => setOver(null)}>
        {drawn.heads.map((head) => (
          head.day ? (
            <button key={head.day} type="button" class={`tile-head ${look(head.part)}`} style={boxStyle(head)} aria-expanded={true} onClick={() => setOpenDay("")}>{head.day} <span aria-hidden="true">✕</span></button>
          ) : (
            <div key={head.part} class={`tile-head ${look(head.part)}`} style={boxStyle(head)} aria-hidden="true">{title(head.part)}</div>
          )
        ))}
        {drawn.tiles.map((tile, index) => (
          <button
            key={`${tile.part} ${tile.item?.id ?? tile.day?.name ?? ""}`} type="button" class={`tile ${look(tile.part)}`} style={boxStyle(tile)}
            tabIndex={index === focus ? 0 : -1}
            aria-pressed={tile.day ? undefined : tile.item !== null && tile.item.id === selected} aria-expanded={tile.day && false} data-form={tile.item?.form}
            onFocus={() => (setAt(index), setOver(tile))} onPointerEnter={() => setOver(tile)}
            onClick={() => (tile.day ? setOpenDay(tile.day.name) : tile.item && onOpen?.(tile.item.id))}
          >
            <TileText tile={tile} rem={size.rem} />
          </button>
        ))}
        {drawn.tiles.length === 0 && size.width > 0 && <p class="muted pad">This part is empty.</p>}
      </div>
      <figcaption class="over" aria-hidden="true">
        {over ? (
          <>
            <span class={`swatch ${look(over.part)}`} />
            <b>{title(over.part)}</b> <span class="num">{whole(over.tokens)} tokens{form(over)}</span> <span class="over-text">{over.label}</span>
          </>
        ) : <span class="muted">{HOVER.matches ? "Hover over a tile or use the arrow keys. Press Enter to open it." : "Tap a tile to open it."}</span>}
      </figcaption>
    </figure>
  );
}

/** The items of a part as a list, the largest first, each with a bar of its share. The list of the largest part is open. */
function PartList({ part, open, selected, onOpen }: { part: Part; open: boolean; selected: string; onOpen: ((id: string) => void) | undefined }) {
  const [all, setAll] = useState(false);
  const large = [...part.items].sort((a, b) => b.cost - a.cost);
  const listed = large.slice(0, all ? MAX_LISTED : FIRST);
  const rest = large.slice(listed.length);
  const left = rest.reduce((sum, item) => sum + item.cost, 0);
  return (
    <section class="part" aria-label={title(part.name)}>
      <details open={open}>
        <summary><h3><span class={`swatch ${look(part.name)}`} aria-hidden="true" /> {title(part.name)} <span class="num muted">{plural(part.tokens, "token")}</span></h3></summary>
        <ol>
          {listed.map((item) => (
            <li key={item.id}>
              <button type="button" aria-pressed={item.id === selected} onClick={() => onOpen?.(item.id)}>
                <span class="part-text">{item.excerpt || item.id}</span>
                <span class="num small">{whole(item.cost)}<span class="hidden"> tokens</span>{item.form !== "full" && ` · ${item.form}`}</span>
                <span class={`part-bar ${look(part.name)}`} aria-hidden="true" style={{ width: `${(100 * item.cost) / Math.max(1, large[0]?.cost ?? 1)}%` }} />
              </button>
            </li>
          ))}
        </ol>
        {rest.length > 0 && (all ? <p class="small muted">and {plural(rest.length, "more item")}</p> : <button type="button" class="quiet" onClick={() => setAll(true)}>Show {plural(rest.length, "more item")} ({plural(left, "token")})</button>)}
      </details>
    </section>
  );
}

/** The day whose tile has an item, if there are many. */
function dayOf(all: Part[], item: string): string {
  const days = all.filter((part) => part.name === "recent").flatMap((part) => byDay(part.items)).filter(isDay);
  return (item && days.find((day) => day.items.some((each) => each.id === item))?.name) || "";
}

/** How much of an item the tile shows, if it is not all of it. */
function form({ item }: Tile): string {
  return item && item.form !== "full" ? ` (${formText(item)})` : "";
}

/** The text of a tile: as much as fits, words before numbers, and all of it for screen readers. */
function TileText({ tile, rem }: { tile: Tile; rem: number }) {
  const lines = linesOf(tile, rem);
  const isNumbered = lines > 1; // a single line is for words
  const wordLines = isNumbered ? lines - 1 : lines;
  return (
    <span class={lines > 0 ? "tile-text" : "hidden"}>
      <span class="hidden">{title(tile.part)}: </span>
      <span class="tile-label" style={{ WebkitLineClamp: String(Math.max(1, wordLines)) }}>{tile.label.slice(0, 400)}</span>{" "}
      <span class={isNumbered ? "tile-tokens" : "hidden"}>{short(tile.tokens)}<span class="hidden"> tokens</span>{tile.item && tile.item.form !== "full" && ` · ${tile.item.form} of ${short(tile.item.size)}`}</span>
    </span>
  );
}

/** How many lines of text fit in a tile. */
function linesOf({ width, height }: Box, rem: number): number {
  return width > 2.2 * rem ? Math.floor((height / rem - 0.3) / LINE) : 0;
}

function rem(): number {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

function boxStyle(box: Box) {
  return {
    left: `${box.x.toFixed(2)}px`,
    top: `${box.y.toFixed(2)}px`,
    width: `${box.width.toFixed(2)}px`,
    height: `${box.height.toFixed(2)}px`,
  };
}
