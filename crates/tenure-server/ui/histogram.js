// How long something took, as bars over powers of two, with the numbers as text beside it.
import { html } from "./html.js";
import { span } from "./time.js";

const BINS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 3_600_000];

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

export function Histogram({ title, values, none }) {
  if (values.length === 0) return html`<figure class="histogram"><figcaption>${title}</figcaption>
    <p class="muted">${none}</p></figure>`;
  const sorted = values.toSorted((a, b) => a - b);
  const bins = BINS.map((from, place) => ({ from, to: BINS[place + 1] ?? Infinity, count: 0 }));
  sorted.forEach((value) => (bins.findLast((bin) => value >= bin.from).count += 1));
  const first = bins.findIndex((bin) => bin.count);
  const last = bins.findLastIndex((bin) => bin.count);
  const shown = bins.slice(Math.max(0, first - 1), last + 2);
  const most = Math.max(...shown.map((bin) => bin.count));
  const step = 240 / shown.length;
  // A percentile of few values is just one of them.
  const told = [["median", 0.5], ["p99", 0.99]].filter(([, q]) => q < 0.9 || sorted.length >= 100);
  const words = [...told.map(([name, q]) => `${name} ${span(quantile(sorted, q))}`), `longest ${span(sorted.at(-1))}`];
  return html`<figure class="histogram"><figcaption>${title}</figcaption>
    <svg viewBox="0 0 240 74" role="img" aria-label=${`${title}: ${values.length} values, ${words.join(", ")}`}>
      ${shown.map((bin, place) => html`<rect class="value" x=${place * step + 1} y=${58 - (54 * bin.count) / most} width=${Math.min(18, Math.max(2, step - 2))} height=${(54 * bin.count) / most}>
        <title>${`${span(bin.from)} to ${span(bin.to === Infinity ? null : bin.to)}: ${bin.count}`}</title>
        </rect>`)}
      <line class="grid" x1="0" x2="240" y1="58.5" y2="58.5" />
      <text class="axis" x="0" y="71">${span(shown[0].from)}</text>
        <text class="axis" x="240" y="71" text-anchor="end">${span(shown.at(-1).to === Infinity ? shown.at(-1).from : shown.at(-1).to)}</text>
        </svg>
    <p class="muted number">${[values.length, ...words].join(" · ")}</p></figure>`;
}
