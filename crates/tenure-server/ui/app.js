// The frame of all pages: navigation, how the connection is, keys, and the page that is asked for.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { bind, helpOpen, listed } from "./keys.js";
import { Dialog, Empty, Title } from "./parts.js";
import { go, href, route } from "./route.js";
import { enter, gate, leave, link, me } from "./store.js";
import { nextTheme, theme } from "./theme.js";
import { atShort, now, span, tick, utc } from "./time.js";
import { visible } from "./text.js";
import { Overview } from "./pages/overview.js";
import { Locks } from "./pages/locks.js";
import { Lock } from "./pages/lock.js";
import { Nodes } from "./pages/nodes.js";
import { Events } from "./pages/events.js";
import { LogIn } from "./pages/login.js";

const PAGES = [["", "Overview", "g o"], ["locks", "Locks", "g l"], ["nodes", "Nodes", "g n"], ["events", "Events", "g e"]];
const TITLES = { lock: "Lock", ...Object.fromEntries(PAGES.map(([page, title]) => [page, title])) };

function App() {
  const { page } = route.value;
  const shown = gate.value ? "Log in" : TITLES[page] ?? "Not found";
  const name = page === "lock" ? `${visible(route.value.query.get("name") ?? "")} · ` : "";
  useEffect(() => {
    document.title = `${name}${shown} · Tenure`;
  }, [shown, name]);
  useEffect(() => bind([
    ...PAGES.map(([to, title, key]) => [key, title, () => go(href(to))]),
    ["t", "Switch between system, light and dark", nextTheme],
    ["?", "Show keyboard shortcuts", () => (helpOpen.value = true)],
  ]), []);
  const lost = link.value.state === "lost";
  return html`
    <a class="skip" href="#main">Skip to content</a>
    <${Header} />
    <${Banner} />
    <main id="main" class=${lost ? "stale" : ""} tabIndex="-1">
      ${gate.value ? html`<${LogIn} />` : html`<${Page} page=${page} />`}
    </main>
    ${helpOpen.value && html`<${Help} />`}`;
}

function Page({ page }) {
  const name = route.value.query.get("name");
  if (page === "") return html`<${Overview} />`;
  if (page === "locks") return html`<${Locks} />`;
  if (page === "lock" && name !== null) return html`<${Lock} key=${name} name=${name} />`;
  if (page === "nodes") return html`<${Nodes} />`;
  if (page === "events") return html`<${Events} />`;
  return html`<${Title}>Not found</><${Empty} title="Page not found">
    <p>The dashboard has no page at this address. Go to the <a href=${href("")}>overview</a> or the <a href=${href("locks")}>locks</a>.</p>
      </>`;
}

function Header() {
  const { page } = route.value;
  const who = me.value;
  return html`<header class="top">
    <a class="brand" href=${href("")}><svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <path d="M11 14v-3a5 5 0 0 1 10 0v3" fill="none" stroke="currentColor" stroke-width="3"/>
      <rect x="7" y="14" width="18" height="12" rx="3" fill="currentColor"/></svg>Tenure</a>
    ${!gate.value && html`<nav aria-label="Pages">${PAGES.map(([to, title]) => {
      const current = page === to || (to === "locks" && page === "lock");
      return html`<a href=${href(to)} aria-current=${current ? "page" : null}>${title}</a>`;
    })}</nav>`}
    <div class="tools">
      <${Link} />
      ${who?.session_left_ms != null && html`<span class="who" title=${`May ${who.may.join(", ")}`}>${who.name}</span>
        <button type="button" class="quiet" onClick=${leave}>Log out</button>`}
      <button type="button" class="quiet" onClick=${nextTheme} title="Switch between system, light and dark (t)">${{ system: "Auto", light: "Light", dark: "Dark" }[theme.value]}</button>
      <button type="button" class="quiet" onClick=${() => (helpOpen.value = true)} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
    </div></header>`;
}

function Link() {
  const { state } = link.value;
  if (gate.value) return null;
  const [mark, words] = { live: ["●", "Live"], lost: ["✕", "Stale"], connecting: ["○", "Connecting"] }[state];
  return html`<span class=${`link ${state}`}><span aria-hidden="true">${mark}</span> ${words}</span>`;
}

function Banner() {
  const { state, since, at, detail } = link.value;
  if (state !== "lost" || gate.value) return null;
  const ago = at === undefined ? "" : ` (${span(Math.max(0, Math.max(tick.value, now()) - at))})`;
  const when = since === null || since === undefined ? "" : html` since <time title=${utc(since)}>${atShort(since)}</time>`;
  return html`<div class="banner" role="alert">
    <strong>No connection to the service${when}</strong>${ago}: ${detail}.
    You see the state from then. Retrying…</div>`;
}

function Help() {
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${() => (helpOpen.value = false)}>
    <dl class="keys">${listed().map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}
      <div><dt><kbd>Tab</kbd></dt><dd>Next link or control</dd></div>
      <div><dt><kbd>Esc</kbd></dt><dd>Close this</dd></div></dl>
    <form method="dialog"><button>Close</button></form></>`;
}

render(html`<${App} />`, document.getElementById("app"));
enter();
