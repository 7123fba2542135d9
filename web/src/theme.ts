/** Light or dark theme: the system's, unless chosen otherwise. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "brimful-theme";
const THEMES: Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(THEMES.find((each) => each === localStorage.getItem(NAME)) ?? "system");
const preferred = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(preferred.matches);

export const isDark = (): boolean => (theme.value === "system" ? systemDark.value : theme.value === "dark");

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
}

export function applyTheme(): void {
  preferred.addEventListener("change", () => (systemDark.value = preferred.matches));
  effect(() => {
    localStorage.setItem(NAME, theme.value);
    document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  });
}
