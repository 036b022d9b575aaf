// What the service has told, as signals; the pages show these and nothing else.
import { batch, signal } from "@preact/signals";
import * as api from "./api.js";
import { Feed } from "./feed.js";
import { forgetClock, hearClock, now, serviceNow, tick } from "./time.js";

// Who looks: null until it is known.
export const me = signal(null);
// Why the log-in page is shown; null while it is not.
export const gate = signal(null);
// How the connection is: { state: "connecting" | "live" | "lost", since, detail }.
export const link = signal({ state: "connecting", since: null, detail: "" });

export const hello = signal(null);
export const nodes = signal(null);
export const totals = signal(null);
export const progress = signal(null);

// The rows of the list by name. They change in place; `rowsVersion` says when to look again.
export const rows = new Map();
export const rowsVersion = signal(0);
export const rowsReady = signal(false);

// The lock that is looked at, as /v1/lock tells it, and why there is none to show.
export const lock = signal(null);
export const lockProblem = signal(null);

// The last events, the oldest first.
export const log = [];
export const logVersion = signal(0);
const LOG_MAX = 5000;
// Whether events come in: those before are not shown.
export const following = signal(false);

const list = new Feed((options) => api.watchAll(options), { onMessage: hearList, onState: hearState });
const happenings = new Feed((options) => api.events(options), {
  onMessage: hearEvent,
  onOpen: () => (following.value = true),
  resumes: true,
});
let single = null;

// Finds out who looks, and begins to follow.
export async function enter() {
  try {
    const who = await api.me();
    admit(who);
  } catch (problem) {
    // Nothing was shown at all: what to show is said on the page.
    if (problem.status === 401) shut(problem.message.startsWith("no caller's token") ? "Log in to use this service." : problem.message);
    else if (problem.status === 403) shut(problem.message);
    else {
      hearState({ state: "lost", detail: problem.message });
      setTimeout(enter, 2000);
    }
  }
}

export function admit(who) {
  if (!who.may.includes("read")) {
    shut(`${who.name} may ${who.may.join(", ")}: the dashboard needs a token that may read`);
    if (who.session_left_ms !== null) api.logOut().catch(() => {});
    return;
  }
  hearClock(who.now_ms);
  batch(() => {
    me.value = who;
    gate.value = null;
  });
  if (!single) list.start();
  single?.start();
  if (followers) happenings.start();
}

// Shows the log-in page, and nothing of what was seen before.
export function shut(message) {
  [list, happenings, single].forEach((feed) => feed?.stop());
  rows.clear();
  log.length = 0;
  places.clear();
  forgetClock();
  batch(() => {
    [me, hello, nodes, totals, progress, lock, lockProblem].forEach((known) => (known.value = null));
    rowsReady.value = false;
    link.value = { state: "connecting", since: null, detail: "" };
    gate.value = { message };
  });
}

export async function leave() {
  try {
    await api.logOut();
    shut("You are logged out.");
  } catch (problem) {
    shut(`Log-out failed (${problem.message}); close the browser to end the session.`);
  }
}

// Looks at one lock, until the function that this returns is called.
export function openLock(name) {
  holders.clear();
  batch(() => {
    lock.value = null;
    lockProblem.value = null;
  });
  list.stop();
  const feed = new Feed((options) => api.watchLock(name, options), {
    onMessage: hearLock,
    onState: (state) => single === feed && hearState(state),
    // A name that cannot be, or may not be seen: asking again does not help.
    onProblem: (problem) => {
      const final = [400, 403, 422].includes(problem.status);
      if (final) lockProblem.value = problem;
      return final;
    },
  });
  single = feed;
  if (me.value) feed.start();
  return () => {
    feed.stop();
    if (single === feed) {
      single = null;
      if (me.value) list.start();
    }
  };
}

// Follows events, until the function that this returns is called. Whoever comes back goes on after
// the last one that was seen here.
let followers = 0;
export function followEvents() {
  followers += 1;
  if (me.value) happenings.start();
  return () => {
    followers -= 1;
    if (!followers) happenings.stop();
  };
}

function hearState({ state, detail, problem }) {
  if (problem?.status === 401) return shut(problem.message);
  const before = link.value;
  if (state === "live" && before.state !== "live") link.value = { state, since: null, detail: "" };
  if (state === "lost") {
    const since = before.state === "lost" ? before : { since: serviceNow(), at: now() };
    link.value = { state, since: since.since, at: since.at, detail };
  }
}

function hearCommon({ event, data }, at) {
  if (event === "hello") {
    if (hello.value && hello.value.instance !== data.instance) forgetClock();
    hello.value = data;
  } else if (event === "nodes") nodes.value = { list: data.nodes.map(withTerm), at };
  else return false;
  return true;
}

// The bar of a quarantine is full when that begins: the most that was left of it so far.
const quarantines = new Map();
function withTerm(node) {
  const left = node.quarantine_left_ms;
  if (left === null) quarantines.delete(node.node);
  else quarantines.set(node.node, Math.max(left, quarantines.get(node.node) ?? 0));
  return { ...node, quarantine_ms: quarantines.get(node.node) ?? null };
}

function hearList(message, at) {
  const { event, data } = message;
  if (hearCommon(message, at)) {
    // A new stream begins with everything.
    if (event === "hello") fresh = true;
  } else if (event === "totals") totals.value = { ...data, at };
  else if (event === "progress") {
    progress.value = data;
    // Until then a lock that is missing may be there.
    if (data.complete) rowsReady.value = true;
  }
  else if (event === "snapshot") hearSnapshot(data, at);
  else if (event === "changes") hearChanges(data, at);
}

// Whether the next snapshot replaces what is there.
let fresh = true;

function hearSnapshot(data, at) {
  if (fresh) rows.clear();
  fresh = false;
  data.rows.forEach((row) => put(row, at));
  changed();
}

function hearChanges(data, at) {
  data.added.forEach((row) => put(row, at));
  data.changed.forEach((row) => put(row, at));
  data.gone.forEach((name) => rows.delete(name));
  for (const { name, left_ms: leftMs } of data.extended) {
    const row = rows.get(name);
    if (row) {
      // The age counts from another moment than the rest.
      if (row.age_ms !== null) row.age_ms += at - row.at;
      row.left_ms = leftMs;
      row.at = at;
      row.term = Math.max(row.term ?? 0, leftMs);
    }
  }
  changed();
}

function put(row, at) {
  const before = rows.get(row.name);
  const same = before && before.holder === row.holder;
  row.at = at;
  // The bar is full when the term begins: the most that was left of it so far.
  row.term = Math.max(row.left_ms ?? 0, same ? before.term : 0);
  row.twoAt = row.others > 0 ? before?.twoAt ?? at : null;
  rows.set(row.name, row);
}

// A long list is drawn anew less often: at most so much later than it changed.
const LATE_MS = [100, 1000];
let pending = false;
function changed() {
  if (pending) return;
  pending = true;
  const [least, most] = LATE_MS;
  setTimeout(() => {
    pending = false;
    rowsVersion.value += 1;
  }, Math.min(most, least + rows.size / 4));
}

// Who had the lock under which fence, as the nodes said while the page was open.
export const holders = new Map();

function hearLock(message, at) {
  if (hearCommon(message, at) || message.event !== "lock") return;
  const { fence, holder, label } = message.data;
  if (fence !== null && holder !== null) holders.set(fence, { holder, label });
  const before = lock.value;
  const same = before && before.name === message.data.name && before.holder === message.data.holder;
  const term = Math.max(message.data.left_ms ?? 0, same ? before.term : 0);
  const others = otherHolders(message.data);
  const twoAt = others.length ? before?.twoAt ?? at : null;
  batch(() => {
    lock.value = { ...message.data, at, term, others, twoAt };
    lockProblem.value = null;
  });
}

// Who has it by the word of some nodes, though a majority names another.
function otherHolders({ holder, nodes: answers }) {
  const named = answers.filter((answer) => answer.state === "held" && answer.holder !== holder && answer.left_ms > 0);
  return holder === null ? [] : [...new Set(named.map((answer) => answer.holder))];
}

// For a moment nodes differ whenever a lock changes hands. What lasts longer than that is an alarm.
const TWO_AFTER_MS = 1500;
export const hasTwo = (known) => known.twoAt !== null && known.twoAt !== undefined && tick.value - known.twoAt > TWO_AFTER_MS;

function hearEvent({ event, data }, at) {
  if (data.time_ms) hearClock(data.time_ms, at);
  if (repeats(event, data)) return;
  log.push({ event, at, number: (lastNumber += 1), ...data });
  if (log.length > LOG_MAX + 500) log.splice(0, log.length - LOG_MAX);
  logChanged();
}

// Each waiter says where it is several times a second; that is told once until the lock changes.
const places = new Map();
function repeats(event, { name, ahead, waiters, label }) {
  if (event !== "waiting") {
    if (event !== "extended") places.delete(name);
    return false;
  }
  const place = `${ahead} ${waiters} ${label}`;
  const known = places.get(name);
  if (known?.has(place)) return true;
  if (known) known.add(place);
  else places.set(name, new Set([place]));
  return false;
}

let lastNumber = 0;
let logPending = false;
function logChanged() {
  if (logPending) return;
  logPending = true;
  setTimeout(() => {
    logPending = false;
    logVersion.value += 1;
  }, 100);
}

// A tab that nobody sees asks nobody: browsers keep few connections, and looking costs the nodes.
const HIDDEN_MAX_MS = 15_000;
const feeds = () => (followers ? [single ?? list, happenings] : [single ?? list]);
const rest = () => feeds().forEach((feed) => feed.stop());
const wake = () => me.value && feeds().forEach((feed) => feed.start());
let hiding = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(rest, HIDDEN_MAX_MS);
  else wake();
});
// A page that is left may be kept, to be shown again, and its connections with it.
addEventListener("pagehide", rest);
addEventListener("pageshow", (event) => event.persisted && wake());
