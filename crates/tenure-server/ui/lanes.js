// The recent life of a lock, from events and from what the nodes say now: one lane per holder.
//
// Events of this instance name the fence, those that were seen name the holder, and often both: a
// lane is known by either. Times are the service's.
import { hasTwo } from "./store.js";

const same = (lane, event) =>
  (event.fence != null && lane.fence === event.fence) || (event.holder != null && lane.holder === event.holder);

export function lanes(events, lock, now, facts) {
  const found = [];
  const open = (event, fields) => {
    // Events of this instance do not name the holder; the nodes did while it had the lock.
    const known = facts.get(event.fence);
    const lane = {
      start: event.time_ms, end: null, ending: null, ticks: [], risks: [], red: null, exact: !event.seen,
      fence: event.fence ?? null, holder: event.holder ?? known?.holder ?? null, label: event.label ?? known?.label ?? null, ...fields,
    };
    found.push(lane);
    return lane;
  };
  const latest = (event) => {
    const known = found.findLast((lane) => same(lane, event));
    if (known) return known;
    return event.fence == null && event.holder == null ? found.findLast((lane) => lane.end === null) : undefined;
  };
  const of = (holder) => found.findLast((lane) => holder != null && lane.holder === holder);
  // What this instance did counts more than what was seen.
  const end = (lane, at, ending) => {
    const exact = ["lost", "released", "forced"];
    if (lane && (lane.end === null || (exact.includes(ending) && !exact.includes(lane.ending)))) Object.assign(lane, { end: at, ending });
  };
  for (const event of events) {
    const lane = latest(event);
    const at = event.time_ms;
    switch (event.event) {
      case "acquired":
        if (!lane) open(event, { waited: event.elapsed_ms });
        break;
      case "passed_on":
        end(found.findLast((other) => other.end === null), at, "passed on");
        open(event, {});
        break;
      case "extended": case "safe":
        (lane ?? open(event, { early: true })).ticks.push(at);
        break;
      case "at_risk": case "not_extended":
        (lane ?? open(event, { early: true })).risks.push(at);
        break;
      case "lost": end(lane, at, "lost"); break;
      case "given_up": end(lane, at, "released"); break;
      case "forced": end(of(event.was) ?? found.findLast((other) => other.end === null), at, "forced"); break;
      case "seen_held": case "seen_changed_hands": {
        if (event.was) end(of(event.was), at, "ended");
        const own = lane ?? open(event, {});
        own.holder ??= event.holder;
        own.label ??= event.label ?? null;
        break;
      }
      case "seen_freed": {
        const own = of(event.was) ?? found.findLast((other) => same(other, event));
        end(own, at, event.expired ? "expired" : "freed");
        break;
      }
    }
  }
  settle(found, lock, now, open, end);
  return found;
}

// What the nodes say now decides which lane is open.
function settle(found, lock, now, open, end) {
  if (!lock || now === null) return;
  const held = lock.state === "held" || lock.state === "kept";
  const current = held ? found.findLast((lane) => same(lane, lock)) : null;
  if (held && !current) {
    const age = lock.age_ms ?? 0;
    const start = now - age - (performance.now() - lock.at);
    open({ time_ms: start, fence: lock.fence, holder: lock.holder, seen: true }, { label: lock.label, early: lock.age_ms === null });
  }
  if (current) {
    Object.assign(current, { holder: lock.holder, label: lock.label ?? current.label });
    // One of several holds was released, or an end was seen that was another's.
    if (current.ending !== "lost") Object.assign(current, { end: null, ending: null });
  }
  // Somebody whom a minority still names: it may not know yet that another has the lock.
  const two = hasTwo(lock) ? now - (performance.now() - lock.twoAt) : null;
  const doubled = two === null ? [] : lock.others.map((holder) => found.findLast((lane) => lane.holder === holder)
    ?? open({ time_ms: two, holder, seen: true }, { early: true, label: lock.nodes.find((node) => node.holder === holder)?.label ?? null }));
  if (two !== null) [...doubled, current ?? found.at(-1)].forEach((lane) => Object.assign(lane, { red: two, end: null, ending: null }));
  // A reader of many, or one whose end was not seen, may still be there: only the nodes know.
  const shared = lock.readers > 1;
  const over = (lane) => lane.end === null && lane !== current && !doubled.includes(lane) && lane.fence !== lock.fence;
  if (!shared) found.filter(over).forEach((lane) => end(lane, Math.max(lane.start, ...lane.ticks), "end not seen"));
}

// How long waits, holds and hand-overs took, in milliseconds, for locks that this instance acquired.
export function durations(events) {
  const [waits, holds, handovers] = [[], [], []];
  const begun = new Map();
  const ended = new Set();
  let released = null;
  for (const event of events) {
    if (event.event === "acquired") {
      begun.set(event.fence, event.time_ms);
      waits.push(event.elapsed_ms);
      // Whoever came after the release was not handed anything.
      const waited = released !== null && event.time_ms - event.elapsed_ms <= released;
      // A node's clock saw the release, whoever released. Without it, compare two events of ours.
      if (event.passed_on_after_ms != null) handovers.push(event.passed_on_after_ms);
      else if (waited) handovers.push(Math.max(0, event.time_ms - released));
      released = null;
    } else if (event.event === "given_up" || event.event === "lost") {
      const since = begun.get(event.fence);
      const held = event.held_ms ?? (since === undefined ? null : event.time_ms - since);
      // A lock that is lost is given up later on.
      if (held !== null && !ended.has(event.fence)) holds.push(held);
      ended.add(event.fence);
      if (event.event === "given_up") released = event.time_ms;
    }
  }
  return { waits, holds, handovers };
}
