// The nodes in a row: one box each, with its state as mark and word.
import { nodeState, shortNode } from "./health.js";
import { html } from "./html.js";
import { State } from "./parts.js";
import { href } from "./route.js";
import { left, micros, seconds } from "./time.js";

export function NodeStrip({ nodes, at }) {
  return html`<ul class="strip" aria-label="Nodes">${nodes.map((node) => {
    const state = nodeState(node);
    const detail = state === "quarantine" ? seconds(left(node.quarantine_left_ms, at))
      : state === "votes" && node.rtt_us !== null ? micros(node.rtt_us) : "";
    return html`<li key=${node.node} class=${state}>
      <a href=${href("nodes")} title=${node.node}>${shortNode(node.node)}</a><${State} state=${state} />
      <span class="number muted">${detail}</span></li>`;
  })}</ul>`;
}
