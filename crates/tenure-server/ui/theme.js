// Light or dark: what the system says, unless the viewer chose.
import { signal } from "@preact/signals";

const KEY = "tenure-theme";
const CHOICES = ["system", "light", "dark"];

const kept = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};

export const theme = signal(CHOICES.includes(kept()) ? kept() : "system");

export function choose(next) {
  theme.value = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Where nothing may be kept, the choice lasts as long as the page.
  }
}

export const nextTheme = () => choose(CHOICES[(CHOICES.indexOf(theme.value) + 1) % CHOICES.length]);

theme.subscribe((chosen) => {
  const root = document.documentElement;
  if (chosen === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", chosen);
});
