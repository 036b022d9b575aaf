// The timeline as a picture: time runs to the right, a lane is a holder. The same stands below it
// as a table.
import { html } from "./html.js";
import { lanes } from "./lanes.js";
import { Moment } from "./parts.js";
import { holders } from "./store.js";
import { Foreign } from "./text.js";
import { atShort, serviceNow, span, tick } from "./time.js";

const [WIDTH, LANE, TOP, LABEL, LANES_MAX] = [1000, 26, 22, 150, 12];

const name = (lane) => lane.label
  ?? (lane.holder ? lane.holder.slice(0, 8) : lane.fence ? `fence …${String(lane.fence).slice(-6)}` : "unknown");

export function Timeline({ events, lock }) {
  tick.value;
  const now = serviceNow();
  const all = lanes(events, lock, now, holders);
  const shown = all.slice(-LANES_MAX);
  if (now === null || shown.length === 0) return html`<p class="muted">Nobody has held the lock since you opened this page.</p>`;
  const begin = Math.min(...shown.map((lane) => lane.start), now - 15_000);
  const from = Math.max(begin, now - 15 * 60_000);
  const x = (time) => LABEL + ((Math.min(Math.max(time, from), now) - from) / (now - from)) * (WIDTH - LABEL - 10);
  const height = TOP + shown.length * LANE + 8;
  const steps = [0, 0.25, 0.5, 0.75, 1].map((part) => from + part * (now - from));
  const red = shown.some((lane) => lane.red);
  return html`<div class="scroll" tabIndex="0" role="group" aria-label="Timeline">
    <svg class="timeline" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${summary(shown, now, red)}>
      ${steps.map((time, place) => html`<g key=${place}>
        <line class="grid" x1=${x(time)} x2=${x(time)} y1=${TOP - 4} y2=${height - 6} />
        <text class="axis" x=${x(time)} y="12" text-anchor=${place === 4 ? "end" : place === 0 ? "start" : "middle"}>${place === 4 ? "now" : `−${span(now - time)}`}</text>
          </g>`)}
      ${shown.map((lane, place) => html`<${Lane} key=${place} lane=${lane} y=${TOP + place * LANE} x=${x} now=${now} />`)}
    </svg></div>
    ${red && html`<p class="error" role="alert">✕ Two holders at once: one was still valid when a majority granted another.
      Compare the fences: the larger one is the later holder.</p>`}
    <details><summary>The timeline as text</summary>
      <div class="scroll" tabIndex="0" role="group" aria-label="Timeline as text"><table><thead><tr>
      <th scope="col">Holder</th><th scope="col">From</th><th scope="col">Until</th>
      <th scope="col">How it ended</th><th scope="col" class="right">Extensions</th></tr></thead>
      <tbody>${shown.map((lane) => html`<tr><th scope="row"><${Foreign} text=${name(lane)} /></th>
        <td>${lane.early ? "before " : ""}<${Moment} ms=${lane.start} /></td>
        <td>${lane.end === null ? "now" : html`<${Moment} ms=${lane.end} />`}</td>
          <td>${lane.red ? "two holders at once" : lane.ending ?? "held"}</td>
          <td class="right number">${lane.ticks.length}</td></tr>`)}</tbody></table></div></details>`;
}

const summary = (shown, now, red) =>
  `${shown.length} ${shown.length === 1 ? "holder" : "holders"}, `
  + `${span(now - Math.min(...shown.map((lane) => lane.start)))}${red ? "; two holders at once" : ""}. The table below has the details.`;

const END = { lost: "✕", forced: "✕", expired: "◌", released: "○", freed: "○", ended: "○", "passed on": "→", "end not seen": "?" };

function Lane({ lane, y, x, now }) {
  const [start, end] = [x(lane.start), Math.max(x(lane.end ?? now), x(lane.start) + 3)];
  const bad = lane.ending === "lost" || lane.ending === "forced";
  const label = name(lane);
  return html`<g class=${`lane ${lane.exact ? "exact" : "seen"} ${lane.end === null ? "open" : ""} ${bad ? "bad" : ""}`}>
    <text class="who" x="0" y=${y + 15}>${label.length > 20 ? `${[...label].slice(0, 19).join("")}…` : label}</text>
    <rect class="hold" x=${start} y=${y + 3} width=${end - start} height="16" rx="3" />
    ${lane.red && html`<rect class="two" x=${x(lane.red) - 2} y=${y + 1} width=${Math.max(4, end - x(lane.red))} height="20" rx="3" />`}
    ${lane.ticks.map((time) => html`<line class="extension" x1=${x(time)} x2=${x(time)} y1=${y + 5} y2=${y + 17} />`)}
    ${lane.risks.map((time) => html`<text class="risk" x=${x(time)} y=${y + 16} text-anchor="middle">▲</text>`)}
    ${lane.ending && html`<text class="end" x=${end + 4} y=${y + 16}>${END[lane.ending] ?? ""} ${x(now) - end > 90 || bad ? lane.ending : ""}</text>`}</g>`;
}
