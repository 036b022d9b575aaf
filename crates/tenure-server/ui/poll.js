// Stands in for /v1/watch where the service does not have it yet: asks again and again.
import { ask } from "./api.js";

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const hello = (list) => ({ instance: "poll", version: "", nodes: list.length, majority: Math.floor(list.length / 2) + 1 });
const row = (lock) => ({ ...lock, age_ms: null, age_exact: false, margin: null, agree: lock.agree.length, disagree: lock.disagree.length, seen_ms_ago: 0 });

export async function pollAll({ signal, onOpen, onBytes, onMessage }) {
  const tell = (event, data) => onMessage({ event, id: null, data });
  for (let first = true; !signal.aborted; first = false) {
    const [{ nodes }, { locks }] = await Promise.all([ask("GET", "/v1/nodes"), ask("GET", "/v1/locks")]);
    if (first) onOpen();
    onBytes();
    tell("hello", hello(nodes));
    tell("nodes", { nodes });
    tell("totals", { held: locks.filter((lock) => lock.state === "held").length, waiting: null, since_ms: 0, acquired: null, refused: null, lost: null, contended: [] });
    tell("snapshot", { rows: locks.map(row), more: false });
    await pause(1000);
  }
}

export async function pollLock(name, { signal, onOpen, onBytes, onMessage }) {
  const tell = (event, data) => onMessage({ event, id: null, data });
  for (let first = true; !signal.aborted; first = false) {
    const [{ nodes }, lock] = await Promise.all([ask("GET", "/v1/nodes"), ask("GET", `/v1/lock?name=${encodeURIComponent(name)}`)]);
    if (first) onOpen();
    onBytes();
    tell("hello", hello(nodes));
    tell("nodes", { nodes });
    tell("lock", { ...lock, age_ms: null, age_exact: false, margin: null, seen_ms_ago: 0 });
    await pause(1000);
  }
}
