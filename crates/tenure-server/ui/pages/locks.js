// Locks: the list, sorted and filtered here, drawn only where it is seen.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { bind } from "../keys.js";
import { Age, Empty, LockName, Left, State, Title } from "../parts.js";
import { go, href, lockHref, route } from "../route.js";
import { hasTwo, hello, me, nodes, rows, rowsReady, rowsVersion } from "../store.js";
import { Foreign, visible } from "../text.js";
import { count } from "../time.js";
import { Progress } from "../progress.js";
import { VirtualList } from "../list.js";

const value = {
  name: (row) => row.name,
  label: (row) => row.label ?? row.owner ?? "",
  age: (row, now) => (row.age_ms === null ? -1 : row.age_ms + now - row.at),
  left: (row, now) => (row.left_ms === null ? Infinity : row.left_ms - (now - row.at)),
  fence: (row) => row.fence ?? 0,
  margin: (row) => row.margin ?? -1,
  waiters: (row) => row.waiters ?? -1,
};

// Column, title, class; and the way that is asked for first.
const COLUMNS = [
  ["name", "Lock", "c-name", 1], ["state", "State", "c-state", 0], ["label", "Held by", "c-label", 1], ["age", "Age", "c-age right", -1],
  ["left", "Time left", "c-left right", 1], ["waiters", "Waiting", "c-waiters right", -1],
  ["margin", "Margin", "c-margin right", 1], ["fence", "Fence", "c-fence right", -1],
];

const contains = (row, words) =>
  `${row.name}\n${row.label ?? ""}\n${row.owner ?? ""}\n${row.holder ?? ""}\n${row.state}`.toLowerCase().includes(words);

// What is sorted by is looked up once a row: this runs for thousands of them, about once a second.
function chosen(filter, sort, way) {
  const words = filter.toLowerCase();
  const now = performance.now();
  const of = value[sort] ?? value.name;
  const found = [];
  for (const row of rows.values()) {
    if (words === "" || contains(row, words)) found.push({ row, key: of(row, now) });
  }
  const order = (x, y) => (x < y ? -1 : x > y ? 1 : 0);
  found.sort((a, b) => way * order(a.key, b.key) || order(a.row.name, b.row.name));
  return found.map(({ row }) => row);
}

export function Locks() {
  const query = route.value.query;
  const [filter, sort] = [query.get("filter") ?? "", query.get("sort") ?? "name"];
  const way = Number(query.get("way") ?? COLUMNS.find(([column]) => column === sort)?.[3] ?? 1);
  const version = rowsVersion.value;
  const found = useMemo(() => chosen(filter, sort, way), [version, filter, sort, way]);
  const search = useRef(null);
  const set = (change) => {
    const next = new URLSearchParams(query);
    Object.entries(change).forEach(([key, to]) => (to === "" ? next.delete(key) : next.set(key, to)));
    go(`${href("locks")}${next.size ? `?${next}` : ""}`, { replace: true });
  };
  useEffect(() => bind([
    ["/", "Filter the locks", () => search.current?.focus()],
    ["s", "Sort by the next column", () => {
      const sortable = COLUMNS.filter(([, , , first]) => first);
      const place = sortable.findIndex(([column]) => column === sort);
      const [column] = sortable[(place + 1) % sortable.length];
      set({ sort: column, way: "" });
    }],
    ["r", "Reverse the order", () => set({ way: String(-way) })],
  ]), [query]);
  const prefixes = me.value?.prefixes ?? [];
  return html`<div class="title-row"><${Title}>Locks</>
      <label class="search"><span class="visually-hidden">Filter by name, label, holder or state</span>
        <input type="search" ref=${search} placeholder="Filter (/)" value=${filter} onInput=${(event) => set({ filter: event.target.value })}
          onKeyDown=${(event) => event.key === "Escape" && (set({ filter: "" }), event.target.blur())} /></label>
      <span class="muted number" role="status">${filter ? `${count(found.length)} of ${count(rows.size)}` : count(rows.size)} ${rows.size === 1 ? "lock" : "locks"}</span>
        </div>
    ${prefixes.length > 0 && html`<p class="muted">You see names that start with ${prefixes.map((prefix) => visible(prefix)).join(" or ")}.</p>`}
    <${Progress} />
    ${found.length > 0 ? html`<${VirtualList} rows=${found} label="Locks" head=${html`<${Head} sort=${sort} way=${way} set=${set} />`}
        row=${(row) => html`<${Cells} row=${row} />`}
        onOpen=${(row) => go(lockHref(row.name))} />`
      : rowsReady.value ? html`<${Nothing} filter=${filter} />` : html`<p class="muted">Scanning the nodes…</p>`}`;
}

function Nothing({ filter }) {
  if (filter && rows.size) return html`<${Empty} title="No lock matches">
    <p>No name, label, holder or state contains <${Foreign} text=${filter} />. <a href=${href("locks")}>Show all ${count(rows.size)}</a>
    </p></>`;
  const asleep = nodes.value && !nodes.value.list.some((node) => node.votes);
  return html`<${Empty} title="No locks">
    <p>${asleep ? html`No node votes right now; the <a href=${href("nodes")}>nodes page</a> says why${hello.value ? " and for how long" : ""}.` : "Nothing is locked. Take a lock and it appears here:"}</p>
    ${!asleep && html`<pre><code>tenure run --service ${location.origin} hello -- sleep 60</code></pre>`}</>`;
}

const Head = ({ sort, way, set }) => COLUMNS.map(([column, title, cell, first]) => {
  const is = column === sort;
  const order = is ? (way > 0 ? "ascending" : "descending") : first ? "none" : null;
  const choose = () => set({ sort: column === "name" ? "" : column, way: is ? String(-way) : "" });
  return html`<span role="columnheader" class=${cell} aria-sort=${order}>
    ${first ? html`<button type="button" class="sort" onClick=${choose}>${title}<span aria-hidden="true">${is ? (way > 0 ? " ▲" : " ▼") : ""}</span>
    </button>` : title}</span>`;
});

const stateOf = (row) => hasTwo(row) ? { state: "two" } : { state: row.state, words: row.readers > 1 ? `${row.readers} readers` : null };

function Cells({ row }) {
  const cell = (cls, content) => html`<span role="cell" class=${cls}>${content}</span>`;
  return html`${cell("c-name", html`<${LockName} name=${row.name} />`)}
    ${cell("c-state", html`<${State} ...${stateOf(row)} />`)}
    ${cell("c-label", row.label ?? row.owner ? html`<${Foreign} text=${row.label ?? row.owner} />` : html`<span class="muted">no label</span>`)}
    ${cell("c-age right", html`<${Age} ms=${row.age_ms} at=${row.at} exact=${row.age_exact} />`)}
    ${cell("c-left right", html`<${Left} ms=${row.left_ms} at=${row.at} term=${row.term} />`)}
    ${cell("c-waiters right number", row.waiters ? html`<strong>${count(row.waiters)}</strong>` : count(row.waiters))}
    ${cell("c-margin right number", html`<${Margin} row=${row} />`)}
    ${cell("c-fence right number muted", row.fence ?? "–")}`;
}

function Margin({ row }) {
  if (row.margin === null || row.margin === undefined) return "–";
  return html`<span class=${row.margin === 0 && (hello.value?.nodes ?? 1) > 1 ? "warn-text" : ""} title=${`${row.agree} nodes agree, ${row.disagree} do not`}>${row.margin}${row.disagree ? " ▲" : ""}</span>`;
}
