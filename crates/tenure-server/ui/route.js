// Which page the address names. Links are ordinary links: only the browser's load is spared.
import { signal } from "@preact/signals";

const HOME = "/ui/";

const read = () => {
  const { pathname, search } = location;
  return { page: pathname.slice(HOME.length), query: new URLSearchParams(search), key: pathname + search };
};

export const route = signal(read());

export const href = (page, query) => HOME + page + (query ? `?${new URLSearchParams(query)}` : "");
export const lockHref = (name) => `${HOME}lock?name=${encodeURIComponent(name)}`;

export function go(url, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  route.value = read();
  if (!replace) {
    scrollTo(0, 0);
    // Whoever hears the page is told where they are.
    requestAnimationFrame(() => document.querySelector("main h1")?.focus());
  }
}

addEventListener("popstate", () => (route.value = read()));

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const plain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !plain || event.defaultPrevented || link.target || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(HOME) || /\.\w+$|LICENSE/.test(link.pathname)) return;
  event.preventDefault();
  if (link.pathname + link.search !== route.value.key) go(link.href);
});
