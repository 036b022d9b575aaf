// Nodes: does each vote, why not, how far is it, and what is wrong with it.
import { health, nodeState } from "../health.js";
import { html } from "../html.js";
import { State, Title } from "../parts.js";
import { hello, nodes } from "../store.js";
import { visible } from "../text.js";
import { left, micros, seconds } from "../time.js";

const SEVERITY = { refuse: ["✕", "Not used"], warn: ["▲", "Warning"], info: ["ℹ", "Note"] };
const KEEPS = {
  none: "nothing: a restart loses all locks", snapshots: "snapshots: a restart may lose recent locks",
  log: "a log: a crash may lose the last second", always: "every write", unknown: "unknown",
};

export function Nodes() {
  const known = nodes.value;
  if (!known) return html`<${Title}>Nodes</><p class="muted">Asking the nodes…</p>`;
  const { sentence, level } = health(known.list, known.at, hello.value?.majority);
  return html`<${Title}>Nodes</>
    <p class=${`sentence ${level}`} role="status">${sentence}</p>
    <ul class="nodes">${known.list.map((node) => html`<${Node} key=${node.node} node=${node} at=${known.at} />`)}</ul>`;
}

function Node({ node, at }) {
  const state = nodeState(node);
  const facts = [
    ["Round trip", micros(node.rtt_us)],
    ["Clock", node.clock_offset_us === null ? "unknown" : node.clock_offset_us === 0 ? "in the middle" : `${micros(Math.abs(node.clock_offset_us))} ${node.clock_offset_us > 0 ? "ahead" : "behind"}`],
    ["Server", node.version ? visible(node.version) : "unknown"],
    ["Role", node.role + (node.replicas ? `, ${node.replicas} ${node.replicas === 1 ? "replica" : "replicas"}` : "")],
    ["Keeps", KEEPS[node.persistence] ?? visible(node.persistence)],
    ["Eviction", node.eviction ? visible(node.eviction) : "unknown"],
  ];
  return html`<li class=${`node ${state}`}><h2><bdi>${visible(node.node)}</bdi></h2><${State} state=${state} />
    ${state === "quarantine" && html`<${Quarantine} node=${node} at=${at} />`}
    ${state === "unreachable" && html`<p>It does not answer, so it does not vote. What it held stays held on the others.</p>`}
    <dl class="facts">${facts.map(([name, fact]) => html`<div><dt>${name}</dt><dd class="number">${fact}</dd></div>`)}</dl>
    ${node.findings.length > 0 && html`<ul class="findings">${node.findings.map((found) => {
      const [mark, word] = SEVERITY[found.severity] ?? SEVERITY.info;
      return html`<li class=${found.severity}><p><strong><span aria-hidden="true">${mark}</span> ${word}:</strong> ${visible(found.message)}</p>${found.advice && html`<p class="advice">${visible(found.advice)}</p>`}</li>`;
    })}</ul>`}</li>`;
}

function Quarantine({ node, at }) {
  const rest = left(node.quarantine_left_ms, at);
  const whole = Math.max(hello.value?.max_ttl_ms ?? 0, node.quarantine_left_ms);
  return html`<p>It may have forgotten locks, so it does not vote until all of them have expired: <strong class="number">${seconds(rest)}</strong> more.</p>
    <span class="bar wait" aria-hidden="true"><span style=${{ transform: `scaleX(${(rest / whole).toFixed(3)})` }}></span></span>`;
}
