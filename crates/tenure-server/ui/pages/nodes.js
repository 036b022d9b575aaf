// Nodes: does each vote, why not, how far is it, and what is wrong with it.
import { health, nodeState, shortNode } from "../health.js";
import { html } from "../html.js";
import { State, Title } from "../parts.js";
import { hello, nodes } from "../store.js";
import { visible } from "../text.js";
import { left, micros, seconds } from "../time.js";

const SEVERITY = { refuse: ["✕", "Not used"], warn: ["▲", "Warning"], info: ["ℹ", "Note"] };
const KEEPS = { none: "nothing", snapshots: "snapshots", log: "a log", always: "every write", unknown: "unknown" };

const same = (one, other) => one.severity === other.severity && one.message === other.message && one.advice === other.advice;

export function Nodes() {
  const known = nodes.value;
  if (!known) return html`<${Title}>Nodes</><p class="muted">Asking the nodes…</p>`;
  const { sentence, level } = health(known.list, known.at, hello.value?.majority);
  // What is true of every node is said once.
  const [first, ...rest] = known.list;
  const common = rest.length ? first.findings.filter((found) =>
    rest.every((node) => node.findings.some((other) => same(found, other)))) : [];
  const own = (node) => node.findings.filter((found) => !common.some((other) => same(found, other)));
  return html`<${Title}>Nodes</>
    <p class=${`sentence ${level}`} role="status">${sentence}</p>
    ${common.length > 0 && html`<section class="card" aria-labelledby="common"><h2 id="common">On every node</h2>
      <${Findings} list=${common} /></section>`}
    <ul class="nodes">${known.list.map((node) => html`<${Node} key=${node.node} node=${node} findings=${own(node)} at=${known.at} />`)}</ul>`;
}

function Node({ node, findings, at }) {
  const state = nodeState(node);
  const offset = node.clock_offset_us;
  const facts = [
    ["Round trip", micros(node.rtt_us)],
    ["Clock", offset === null ? "unknown" : offset === 0 ? "in step" : `${micros(Math.abs(offset))} ${offset > 0 ? "ahead" : "behind"}`],
    ["Server", node.version ? visible(node.version) : "unknown"],
    ["Role", node.role + (node.replicas ? `, ${node.replicas} ${node.replicas === 1 ? "replica" : "replicas"}` : "")],
    ["Survives a restart", KEEPS[node.persistence] ?? visible(node.persistence)],
    node.eviction && ["Eviction", visible(node.eviction)],
  ].filter(Boolean);
  return html`<li class=${`node ${state}`}><div class="node-head"><h2><bdi>${shortNode(node.node)}</bdi></h2>
    <${State} state=${state} /></div>
    ${state === "quarantine" && html`<${Quarantine} node=${node} at=${at} />`}
    ${state === "unreachable" && html`<p>It does not answer, so it does not vote. Locks stay held on the other nodes.</p>`}
    <dl class="facts">${facts.map(([name, fact]) => html`<div><dt>${name}</dt><dd class="number">${fact}</dd>
      </div>`)}</dl>
    ${findings.length > 0 && html`<${Findings} list=${findings} />`}</li>`;
}

const Findings = ({ list }) => html`<ul class="findings">${list.map((found) => {
  const [mark, word] = SEVERITY[found.severity] ?? SEVERITY.info;
  return html`<li class=${found.severity}><p><strong>
    <span aria-hidden="true">${mark}</span> ${word}:</strong> ${visible(found.message)}</p>${found.advice && html`<p class="advice">${visible(found.advice)}</p>`}</li>`;
})}</ul>`;

function Quarantine({ node, at }) {
  const rest = left(node.quarantine_left_ms, at);
  const whole = node.quarantine_ms ?? node.quarantine_left_ms;
  return html`<p>It may have forgotten locks, so it does not vote until all of them have expired:${" "}
      <strong class="number">${seconds(rest)}</strong> more.</p>
    <span class="bar wait" aria-hidden="true"><span style=${{ transform: `scaleX(${(rest / whole).toFixed(3)})` }}>
      </span></span>`;
}
