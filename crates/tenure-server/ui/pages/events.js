// Events: what happens, live; by name and kind, and held still when somebody wants to read.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { bind } from "../keys.js";
import { Empty, LockName, Moment, Title } from "../parts.js";
import { shortNode } from "../health.js";
import { followEvents, following, log, logVersion } from "../store.js";
import { count } from "../time.js";
import { kinds, told } from "../words.js";

const SHOWN_MAX = 300;
const GROUPS = [
  ["", "All kinds"], ["!", "Problems and forced releases"], ["forced", "Audit: forced releases"], ["seen", "Seen on the nodes"], ["node", "Nodes"],
  ...kinds.filter(([kind]) => kind !== "forced").map(([kind, title]) => [`=${kind}`, title]),
];

function matches(event, prefix, group) {
  if (prefix && !(event.name ?? event.node ?? "").startsWith(prefix)) return false;
  if (group === "") return true;
  if (group === "!") return told(event).level !== "";
  if (group.startsWith("=")) return event.event === group.slice(1);
  return group === "seen" ? event.seen === true : event.event.startsWith(group);
}

export function Events() {
  const [prefix, setPrefix] = useState("");
  const [group, setGroup] = useState("");
  // The number of the last event that is shown while it is paused.
  const [paused, setPaused] = useState(null);
  const search = useRef(null);
  useEffect(followEvents, []);
  logVersion.value;
  const last = log.at(-1)?.number ?? 0;
  const toggle = () => setPaused((before) => (before === null ? log.at(-1)?.number ?? 0 : null));
  useEffect(() => bind([
    ["p", "Pause or resume", toggle],
    ["/", "Filter by name", () => search.current?.focus()],
  ]), []);
  const found = [];
  for (let place = log.length - 1; place >= 0 && found.length < SHOWN_MAX; place -= 1) {
    const event = log[place];
    if ((paused === null || event.number <= paused) && matches(event, prefix, group)) found.push(event);
  }
  return html`<div class="title-row"><${Title}>Events</>
      <label class="search"><span class="visually-hidden">Name prefix</span>
        <input type="search" ref=${search} placeholder="Prefix (/)" value=${prefix} onInput=${(event) => setPrefix(event.target.value)}
          onKeyDown=${(event) => event.key === "Escape" && (setPrefix(""), event.target.blur())} /></label>
      <label><span class="visually-hidden">Kind</span>
        <select value=${group} onChange=${(event) => setGroup(event.target.value)}>${GROUPS.map(([key, title]) => html`<option value=${key}>${title}</option>`)}</select>
        </label>
      <button type="button" onClick=${toggle} aria-pressed=${paused !== null}>${paused === null ? "Pause" : "Resume"}</button>
      <span class="muted" role="status">${paused === null ? "" : `Paused: ${count(last - paused)} newer`}</span>
        </div>
    <p class="muted">Events of this instance are exact. Events of other clients are read from the
      nodes: they are marked <em>seen</em>, with how late they may be.</p>
    ${found.length ? html`<ol class="events" aria-label="Events, the newest first">${found.map((event) => html`<${Row} key=${event.number} event=${event} />`)}</ol>`
      : !following.value ? html`<p class="muted">Connecting…</p>`
      : html`<${Empty} title=${log.length ? "No event matches" : "Nothing has happened yet"}>
        <p>${log.length ? "Try another prefix or kind." : "Events appear here from the moment you open this page."}</p>
        </>`}`;
}

function Row({ event }) {
  const { mark, title, words, level } = told(event);
  return html`<li class=${level}>
    <span class="when">${event.time_ms ? html`<${Moment} ms=${event.time_ms} />` : ""}</span>
    <span class="kind"><span aria-hidden="true">${mark}</span> ${title}</span>
    <span class="what">${event.name !== undefined ? html`<${LockName} name=${event.name} />` : event.node ? html`<bdi>${shortNode(event.node)}</bdi>` : ""}</span>
    <span class="words">${words}
      ${event.seen ? html` <span class="tag" title="Seen on the nodes">seen${event.within_ms ? `, up to ${count(event.within_ms)} ms earlier` : ""}</span>` : ""}
      ${event.fence ? html` <span class="muted number">fence ${event.fence}</span>` : ""}</span>
      </li>`;
}
