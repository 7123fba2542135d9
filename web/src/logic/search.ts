/** Results of a search over everything: their groups, and the pages they lead to. */

import type { Hit } from "../api/types";
import { contextPath, lorebookPath, memoryPath, personaPath, roomPath } from "./routes";

const GROUPS: [Hit["kind"], string][] = [
  ["memory", "Memories"], ["message", "Messages"], ["context", "Contexts"], ["lore", "Lorebook entries"], ["room", "Rooms"], ["persona", "Personas"],
];

/** The hits by kind, under the name of each kind. */
export function hitGroups(hits: readonly Hit[]): [string, Hit[]][] {
  return GROUPS.map(([kind, name]): [string, Hit[]] => [name, hits.filter((hit) => hit.kind === kind)]).filter(([, found]) => found.length > 0);
}

/** The page of a hit. A message is shown among the search results of its room. */
export function hitPath(hit: Hit): string {
  switch (hit.kind) {
    case "context":
      return contextPath(hit.id);
    case "message":
      return `${roomPath(hit.parent)}?${new URLSearchParams({ q: hit.excerpt.replace(/…$/, "").slice(0, 100) })}`;
    case "memory":
      return memoryPath(hit.id);
    case "lore":
      return `${lorebookPath(hit.parent)}?${new URLSearchParams({ q: hit.id })}`;
    case "room":
      return roomPath(hit.id);
    case "persona":
      return personaPath(hit.id);
  }
}
