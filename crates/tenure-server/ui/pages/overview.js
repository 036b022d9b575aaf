// Overview: is it well, how much is going on, and where do people wait.
import { health } from "../health.js";
import { html } from "../html.js";
import { Empty, LockName, Title } from "../parts.js";
import { href } from "../route.js";
import { hello, nodes, rows, rowsReady, rowsVersion, totals } from "../store.js";
import { age, count, left, seconds, span } from "../time.js";
import { NodeStrip } from "../strip.js";
import { Progress } from "../progress.js";

export function Overview() {
  const known = nodes.value;
  rowsVersion.value;
  return html`<${Title}>Overview</>
    ${known ? html`<${Health} known=${known} />` : html`<p class="muted">Asking the nodes…</p>`}
    <${Figures} />
    <${Progress} />
    ${rowsReady.value && rows.size === 0 && known && html`<${FirstSteps} known=${known} />`}
    <${Contended} />`;
}

function Health({ known }) {
  const { sentence, level } = health(known.list, known.at, hello.value?.majority);
  const mark = { good: "✓", warn: "▲", bad: "✕" }[level];
  return html`<section class=${`health ${level}`} aria-label="Health">
    <p class="sentence" role="status"><span aria-hidden="true">${mark}</span> ${sentence}</p>
    <${NodeStrip} nodes=${known.list} at=${known.at} /></section>`;
}

function Figures() {
  const now = totals.value;
  const since = now ? span(age(now.since_ms, now.at)) : null;
  const figures = [
    ["Held", now?.held, "locks on the nodes now"],
    ["Waiting", now?.waiting, "in line now"],
    ["Acquired", now?.acquired, `here, in ${since}`],
    ["Refused", now?.refused, `here, in ${since}`],
    ["Lost", now?.lost, `here, in ${since}`],
  ];
  return html`<dl class="figures">${figures.map(([title, value, words]) => html`
    <div class=${title === "Lost" && value > 0 ? "figure alarm" : "figure"}><dt>${title}</dt>
      <dd class="big number">${count(value)}</dd><dd class="muted">${now ? words : " "}</dd></div>`)}</dl>`;
}

function FirstSteps({ known }) {
  const waiting = known.list.filter((node) => node.quarantine_left_ms != null);
  if (!known.list.some((node) => node.votes) && waiting.length) {
    return html`<${Empty} title="The nodes are in their first quarantine">
      <p>A node that is new, or may have forgotten locks, grants none until every lock it could have
        forgotten has expired. That takes one max_ttl, once:${" "}
        <strong class="number">${seconds(Math.min(...waiting.map((node) => left(node.quarantine_left_ms, known.at))))}</strong> more.
        The countdowns are on the <a href=${href("nodes")}>nodes page</a>.</p>
        </>`;
  }
  return html`<${Empty} title="No locks yet"><p>Take one and it appears here:</p>
    <pre><code>tenure run --service ${location.origin} hello -- sleep 60</code></pre></>`;
}

function Contended() {
  const list = totals.value?.contended ?? [];
  const most = Math.max(1, ...list.map((lock) => lock.waited_ms));
  return html`<section aria-labelledby="contended"><h2 id="contended">Most contended</h2>
    ${list.length === 0 ? html`<p class="muted">Nobody has waited for a lock at this instance.</p>` : html`
    <div class="scroll" tabIndex="0" role="group" aria-label="Most contended locks"><table><thead><tr>
      <th scope="col">Lock</th><th scope="col" class="right">Time waited</th>
      <th scope="col" aria-hidden="true" class="wide"></th><th scope="col" class="right">Waits</th>
      <th scope="col" class="right">Longest</th></tr></thead>
    <tbody>${list.map((lock) => html`<tr key=${lock.name}><th scope="row"><${LockName} name=${lock.name} /></th>
      <td class="right number">${span(lock.waited_ms)}</td>
      <td class="wide" aria-hidden="true"><span class="bar plain">
        <span style=${{ transform: `scaleX(${(lock.waited_ms / most).toFixed(3)})` }}></span></span></td>
      <td class="right number">${count(lock.waits)}</td><td class="right number">${span(lock.longest_ms)}</td>
        </tr>`)}</tbody></table></div>
    <p class="muted">Acquires at this instance, by time waited.</p>`}</section>`;
}
