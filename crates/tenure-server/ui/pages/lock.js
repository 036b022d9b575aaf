// A lock: who has it, who waits, what each node says, and what happened while the page is open.
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.js";
import { bind } from "../keys.js";
import { Age, Copy, Empty, Id, Left, LockName, State, Title } from "../parts.js";
import { ForceRelease } from "../force.js";
import { Histogram } from "../histogram.js";
import { shortNode } from "../health.js";
import { href } from "../route.js";
import { followEvents, hasTwo, lock, lockProblem, log, logVersion, me, openLock } from "../store.js";
import { Foreign, shellWord, visible } from "../text.js";
import { Timeline } from "../timeline.js";
import { durations } from "../lanes.js";
import { count, serviceNow, span, tick, utc } from "../time.js";

export function Lock({ name }) {
  const [forcing, setForcing] = useState(null);
  useEffect(() => openLock(name), [name]);
  useEffect(followEvents, []);
  logVersion.value;
  const found = lock.value;
  const problem = lockProblem.value;
  const taken = found && ["held", "kept"].includes(found.state);
  const mayForce = taken && found.holder && found.kind !== "foreign" && may("force", name);
  const force = () => lock.value?.holder && setForcing(lock.value);
  useEffect(() => (mayForce ? bind([["f", "Force release", force]]) : undefined), [mayForce]);
  const back = html`<p class="back"><a href=${href("locks")}>← All locks</a></p>`;
  if (problem) {
    return html`${back}<${Title}><${Foreign} text=${name} /></>
      <${Empty} title=${problem.status === 403 ? "You may not see this lock" : "Not a valid lock name"}>
      <p>${problem.message}.</p><p><a href=${href("locks")}>Back to the locks</a></p></>`;
  }
  const events = log.filter((event) => event.name === name || event.names?.includes(name));
  return html`${back}<div class="title-row"><${Title}><${Foreign} text=${name} /></>
      ${found && html`<${State} state=${hasTwo(found) ? "two" : found.state}
        words=${!hasTwo(found) && found.readers > 1 ? `held by ${found.readers} readers` : null} />`}
      ${mayForce && html`<button type="button" class="danger" onClick=${force}>Force release…</button>`}</div>
    ${!found ? html`<p class="muted">Asking the nodes…</p>` : html`
      ${!taken && found.state === "free" && html`<p class="notice">Nobody holds this lock now.
        The holder appears below once someone takes it. See <a href=${href("locks")}>all locks</a>.</p>`}
      ${found.state === "disputed" && html`<p class="notice warn">▲ No majority of nodes agrees.
        That is normal for a moment while a lock changes hands; if it lasts, see what each node says below.</p>`}
      ${found.state === "unknown" && html`<p class="notice warn">▲ Too few nodes answer to tell who holds it.</p>`}
      <${Facts} lock=${found} taken=${taken} />
      <section aria-labelledby="timeline"><h2 id="timeline">Timeline</h2>
        <${Timeline} events=${events} lock=${found} />
        <p class="muted">Since you opened this page. Solid: done by this instance, exact.
          Hatched: seen on the nodes, up to a second or two late.</p>
          </section>
      <${Line} lock=${found} />
      <${Matrix} lock=${found} />
      <${Durations} events=${events} />
      <${Commands} name=${name} />`}
    ${forcing && html`<${ForceRelease} lock=${forcing} current=${found} onClose=${() => setForcing(null)} />`}`;
}

function may(verb, name) {
  const who = me.value;
  return who?.may.includes(verb) && (who.prefixes.length === 0 || who.prefixes.some((prefix) => name.startsWith(prefix)));
}

function Facts({ lock: found, taken }) {
  const dash = html`<span class="muted">–</span>`;
  const facts = [
    ["Held by", taken ? (found.label ? html`<${Foreign} text=${found.label} />` : html`<span class="muted">no label</span>`) : dash],
    found.owner && ["Owner", html`<${Foreign} text=${found.owner} />${found.holds > 1 ? ` (${found.holds} holds)` : ""}`],
    ["Holder", html`<${Id} text=${found.holder} />`],
    ["Time left", html`<${Left} ms=${found.left_ms} at=${found.at} term=${found.term} />`],
    ["Age", taken ? html`<${Age} ms=${found.age_ms} at=${found.at} exact=${found.age_exact !== false} />` : dash],
    ["Fence", found.fence == null ? dash : html`<span class="number">${found.fence}</span>`],
    ["Margin", found.margin == null ? dash : html`<span class="number">${found.margin}</span> ${found.margin === 1 ? "node" : "nodes"} may forget it`],
    ["Waiting", html`<span class="number">${count(found.waiters)}</span>`],
  ].filter(Boolean);
  return html`<dl class="facts">${facts.map(([title, fact]) => html`<div><dt>${title}</dt><dd>${fact}</dd>
    </div>`)}</dl>`;
}

function Line({ lock: found }) {
  const line = found.line ?? [];
  if (!line.length && !found.waiters) return null;
  return html`<section aria-labelledby="line"><h2 id="line">Waiting in line</h2>${line.length
    ? html`<ol class="line">${line.map((waiter, place) => html`<${Waiter} key=${place} waiter=${waiter} />`)}</ol>
      ${found.waiters > line.length && html`<p class="muted">and ${count(found.waiters - line.length)} more</p>`}`
    : html`<p>${count(found.waiters)} ${found.waiters === 1 ? "waits" : "wait"}, in order.</p>`}</section>`;
}

function Waiter({ waiter }) {
  tick.value;
  const now = serviceNow();
  return html`<li>${waiter.label ? html`<${Foreign} text=${waiter.label} />` : html`<span class="muted">no label</span>`}
    ${now !== null && html` <span class="muted number" title=${`Since ${utc(waiter.since_ms)}`}>for ${span(Math.max(0, now - waiter.since_ms))}</span>`}
    ${waiter.shared && " (reader)"}
    ${waiter.keeps?.length > 0 && html`, holding ${waiter.keeps.map((name, place) => html`${place ? ", " : ""}<${LockName} name=${name} />`)}`}</li>`;
}

function Matrix({ lock: found }) {
  return html`<section aria-labelledby="matrix"><h2 id="matrix">What each node says</h2>
    <div class="scroll" tabIndex="0" role="group" aria-label="What each node says"><table class="matrix"><thead><tr>
      <th scope="col">Node</th><th scope="col">Says</th><th scope="col">Holder</th><th scope="col">Label</th>
      <th scope="col" class="right">Left</th><th scope="col" class="right">Waiting</th><th scope="col">Counts</th>
      </tr></thead>
    <tbody>${found.nodes.map((node) => {
      const agrees = found.agree.includes(node.node);
      return html`<tr key=${node.node} class=${node.error ? "away" : agrees ? "agrees" : "differs"}><th scope="row">
        <bdi title=${node.node}>${shortNode(node.node)}</bdi></th>
        <td><${State} state=${node.state} /></td><td><${Id} text=${node.holder} /></td>
          <td>${node.label ? html`<${Foreign} text=${node.label} />` : html`<span class="muted">–</span>`}</td>
        <td class="right"><${Left} ms=${node.left_ms} at=${found.at} term=${found.term} /></td>
          <td class="right number">${count(node.waiters)}</td>
        <td>${node.error ? visible(node.error) : `${agrees ? "agrees" : "▲ differs"}${node.votes ? "" : ", does not vote"}`}</td>
          </tr>`;
    })}</tbody></table></div></section>`;
}

function Durations({ events }) {
  const { waits, holds, handovers } = durations(events);
  const none = "None since you opened this page.";
  return html`<section aria-labelledby="durations"><h2 id="durations">How long it takes</h2><div class="histograms">
    <${Histogram} title="Wait" values=${waits} none=${none} />
    <${Histogram} title="Hold" values=${holds} none=${none} />
    <${Histogram} title="Hand-over" values=${handovers} none=${none} /></div>
    <p class="muted">At this instance. A hand-over is the time from a release, by any client, to the next grant,
      in milliseconds by the clock of one node.</p>
      </section>`;
}

function Commands({ name }) {
  const word = shellWord(name);
  const commands = [
    ["Show it", `tenure status --service ${location.origin} ${word}`],
    ["Run a command under it", `tenure run --service ${location.origin} ${word} -- COMMAND`],
    ["With curl", `curl -G ${location.origin}/v1/lock --data-urlencode ${shellWord(`name=${name}`)}${me.value?.session_left_ms != null ? ' -H "Authorization: Bearer $TENURE_TOKEN"' : ""}`],
  ];
  return html`<section aria-labelledby="commands"><h2 id="commands">Commands</h2>
    <dl class="commands">${commands.map(([title, text]) => html`<div key=${title}><dt>${title}</dt><dd>
    <code tabIndex="0" role="textbox" aria-readonly="true" aria-label=${title}>${visible(text)}</code>
    <${Copy} text=${text} what=${title} /></dd></div>`)}</dl></section>`;
}
