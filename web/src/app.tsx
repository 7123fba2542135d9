/** The frame around every page: navigation, shortcuts and dialogs. */

import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

import { key, useKey } from "./api/client";
import { useFeatures } from "./api/features";
import type { Page } from "./logic/routes";
import { ContextPage } from "./pages/context";
import { ContextsPage } from "./pages/contexts";
import { MemoriesPage } from "./pages/memories";
import { MessagePage } from "./pages/message";
import { PersonaPage, PersonasPage } from "./pages/personas";
import { RoomPage } from "./pages/room";
import { RoomsPage } from "./pages/rooms";
import { WhyPage } from "./pages/why";
import { go, route } from "./router";
import { nextTheme, theme } from "./theme";
import { HelpDialog, showHelp } from "./ui/help";
import { KeyDialog } from "./ui/key-dialog";
import { later } from "./ui/later";
import { SearchDialog } from "./ui/search-dialog";
import { Heading } from "./ui/states";

const AuditPage = later(() => import("./pages/audit").then((page) => page.AuditPage));
const LorebookPage = later(() => import("./pages/lorebook").then((page) => page.LorebookPage));
const LorebooksPage = later(() => import("./pages/lorebooks").then((page) => page.LorebooksPage));
const DiffPage = later(() => import("./pages/diff").then((page) => page.DiffPage));
const StatsPage = later(() => import("./pages/stats").then((page) => page.StatsPage));
const TimelinePage = later(() => import("./pages/timeline").then((page) => page.TimelinePage));
const WhatIfPage = later(() => import("./pages/what-if").then((page) => page.WhatIfPage));
const AdminPage = later(() => import("./pages/admin").then((page) => page.AdminPage));
const RunPage = later(() => import("./pages/run").then((page) => page.RunPage));
const SessionPage = later(() => import("./pages/session").then((page) => page.SessionPage));
const SessionsPage = later(() => import("./pages/sessions").then((page) => page.SessionsPage));

const NAVIGATION: [string, string, Page[]][] = [
  ["/", "Contexts", ["contexts", "run", "context", "message", "what-if", "why"]],
  ["/diff", "Diff", ["diff"]],
  ["/stats", "Stats", ["stats"]],
  ["/rooms", "Rooms", ["rooms", "room", "timeline"]],
  ["/personas", "Personas", ["personas", "persona"]],
  ["/memories", "Memories", ["memories", "audit"]],
  ["/lorebooks", "Lorebooks", ["lorebooks", "lorebook"]],
  ["/sessions", "Sessions", ["sessions", "session"]],
  ["/admin", "Admin", ["admin"]],
];

const THEME_LABELS = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
const THEME_ICONS = { system: "◐", light: "☀", dark: "☾" };

export function App() {
  const [searching, setSearching] = useState(false);
  const features = useFeatures().data;
  const hidden = [...(features?.sessions ? [] : ["/sessions"]), ...(features?.admin || features?.limits ? [] : ["/admin"])];
  useShortcuts({ help: () => showHelp(), search: () => setSearching(true) });
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <header class="top">
        <a class="brand" href="/">
          <Glass />
          <span>Brimful</span>
        </a>
        <nav aria-label="Pages">
          <ul>
            {NAVIGATION.filter(([href]) => !hidden.includes(href)).map(([href, name, pages]) => (
              <li key={href}>
                <a href={href} data-name={name} aria-current={route.value.page && pages.includes(route.value.page) ? "page" : undefined}>
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="tools">
          <button type="button" class="search-button" title="Search everything (Ctrl K)" onClick={() => setSearching(true)}>
            <span aria-hidden="true">⌕</span> <span class="wide-only">Search <kbd>Ctrl K</kbd></span>
          </button>
          {key.value && <button type="button" class="quiet" onClick={() => useKey("")}>Remove API key</button>}
          <button type="button" class="round" aria-label={THEME_LABELS[theme.value]} title={THEME_LABELS[theme.value]} onClick={nextTheme}>
            <span aria-hidden="true">{THEME_ICONS[theme.value]}</span>
          </button>
          <button type="button" class="round" aria-label="Help" title="Help: words and keyboard shortcuts (?)" onClick={() => showHelp()}>
            <span aria-hidden="true">?</span>
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Current />
      </main>
      <KeyDialog />
      {searching && <SearchDialog onClose={() => setSearching(false)} />}
      <HelpDialog />
    </>
  );
}

function Current(): ComponentChildren {
  const { page, params, path } = route.value;
  const [first = "", second = ""] = params;
  switch (page) {
    case "contexts":
      return <ContextsPage />;
    case "run":
      return <RunPage key={first} id={first} />;
    case "context":
      return <ContextPage key={first} id={first} />;
    case "message":
      return <MessagePage key={first} id={first} />;
    case "what-if":
      return <WhatIfPage key={first} id={first} />;
    case "diff":
      return <DiffPage before={first} after={second} />;
    case "stats":
      return <StatsPage />;
    case "rooms":
      return <RoomsPage />;
    case "room":
      return <RoomPage key={first} id={first} />;
    case "timeline":
      return <TimelinePage key={first} room={first} />;
    case "why":
      return <WhyPage key={first} memory={first} />;
    case "personas":
      return <PersonasPage />;
    case "persona":
      return <PersonaPage key={first} id={first} />;
    case "memories":
      return <MemoriesPage />;
    case "audit":
      return <AuditPage />;
    case "admin":
      return <AdminPage />;
    case "sessions":
      return <SessionsPage />;
    case "session":
      return <SessionPage key={first} id={first} />;
    case "lorebooks":
      return <LorebooksPage />;
    case "lorebook":
      return <LorebookPage key={first} id={first} />;
    case null:
      return <><Heading title="Page not found" /><p>There is no page at {path}. <a href="/">Show contexts</a></p></>;
  }
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const SHORTCUTS: Record<string, string> = {
  c: "/", d: "/diff", s: "/stats", r: "/rooms", p: "/personas", m: "/memories", l: "/lorebooks", a: "/admin", e: "/sessions",
};

/** `?` shows help, Ctrl+K searches everything, `g` and a letter go to a page, `/` focuses the search of the page. */
function useShortcuts(show: { help: () => void; search: () => void }): void {
  useEffect(() => {
    let leader = false;
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "k" && (event.ctrlKey || event.metaKey) && !target.closest("dialog")) {
        event.preventDefault();
        return show.search();
      }
      if (event.metaKey || event.ctrlKey || event.altKey || target.closest("dialog")) return;
      if (target.matches("input:not([type=range]):not([type=checkbox]), textarea, select")) return;
      const to = leader ? SHORTCUTS[event.key] : undefined;
      leader = event.key === "g";
      if (to !== undefined) go(to);
      else if (event.key === "?") show.help();
      else if (event.key === "/") document.querySelector<HTMLElement>("[role=search] input")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function Glass() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <path class="glass" d="M6 5h20l-2.4 21a2 2 0 0 1-2 1.8H10.4a2 2 0 0 1-2-1.8z" />
      <path class="brim" d="M6.3 7.5c3-2 5.4 1.4 9.7 0s6.5-1.6 9.7 0l-.4 3.5H6.7z" />
    </svg>
  );
}
