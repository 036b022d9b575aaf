// Keys. Every action has one, or is a link or button that Tab reaches; `?` lists them.
import { signal } from "@preact/signals";

export const helpOpen = signal(false);

const bound = new Map();

// Binds keys until the function that this returns is called. Each: [key, what it does, action].
export function bind(list) {
  list.forEach(([key, words, act]) => bound.set(key, { words, act }));
  return () => list.forEach(([key, , act]) => bound.get(key)?.act === act && bound.delete(key));
}

export const listed = () => [...bound].map(([key, { words }]) => [key, words]);

let prefix = null;

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
  const typing = event.target.matches?.("input, textarea, select");
  if (typing || document.querySelector("dialog[open]")) return;
  const key = prefix ? `${prefix} ${event.key}` : event.key;
  prefix = null;
  if (bound.has(key)) {
    event.preventDefault();
    bound.get(key).act(event);
  } else if (event.key === "g") prefix = "g";
});
