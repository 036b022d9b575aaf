// How far the looker is: an incomplete list says so.
import { html } from "./html.js";
import { shortNode } from "./health.js";
import { progress } from "./store.js";
import { count } from "./time.js";

export function Progress() {
  const known = progress.value;
  if (!known) return null;
  const failing = known.nodes.filter((node) => node.error);
  if (known.complete && !failing.length) return null;
  const how = (node) => (node.of ? `${Math.min(100, Math.floor((100 * node.looked_at) / node.of))} % of ${count(node.of)} keys` : "begun");
  return html`<div class="notice" role="status">
    ${!known.complete && html`<p>
      <strong>The list is not complete yet:</strong> a lock that is missing may still be held. ${
      known.nodes.filter((node) => !node.error && !node.complete).map((node) => `${shortNode(node.node)}: ${how(node)}`).join("; ")}</p>`}
    ${failing.map((node) => html`<p key=${node.node}>${shortNode(node.node)} cannot be scanned: ${node.error}</p>`)}</div>`;
}
