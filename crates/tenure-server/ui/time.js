// Time. Ages and countdowns count from durations that the service told, by a clock that nobody can
// set. The service's wall clock is known by what it says; the viewer's is never asked.
import { signal } from "@preact/signals";

export const now = () => performance.now();

// Moves once a second: whatever counts down reads it.
export const tick = signal(now());
setInterval(() => {
  if (!document.hidden) tick.value = now();
}, 1000);

// The service's wall clock minus ours: at least this, as every message was written before it came.
let offset = null;

export function hearClock(unixMs, at = now()) {
  offset = Math.max(offset ?? -Infinity, unixMs - at);
}

// Another instance has another clock.
export function forgetClock() {
  offset = null;
}

// What the service's wall clock shows now; null until it has told.
export const serviceNow = () => (offset === null ? null : offset + now());

// What is left of a duration that was told at `at`.
export const left = (ms, at) => (ms === null || ms === undefined ? null : Math.max(0, ms - (tick.value - at)));

// How old something is whose age was told at `at`.
export const age = (ms, at) => (ms === null || ms === undefined ? null : ms + Math.max(0, tick.value - at));

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

// 41 s, 3 min 20 s, 2 h 5 min.
export function span(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[first];
  const whole = Math.floor(ms / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return rest > 0 && whole < 100 ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

// The same in whole seconds, for what counts down in front of somebody.
export const seconds = (ms) => (ms < 60_000 ? `${Math.ceil(ms / 1000)} s` : span(ms));

export function micros(us) {
  if (us === null || us === undefined) return "unknown";
  const size = Math.abs(us);
  if (size < 1000) return `${us} µs`;
  return size < 1_000_000 ? `${(us / 1000).toFixed(size < 10_000 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// A moment of the service's wall clock: in the viewer's zone, and in UTC for the title.
export const atTime = (unixMs) => clock.format(unixMs);
export const atShort = (unixMs) => short.format(unixMs);
export const utc = (unixMs) => `${new Date(unixMs).toISOString().replace("T", " ").replace("Z", "")} UTC`;

export const count = (n) => (n === null || n === undefined ? "–" : new Intl.NumberFormat("en-US").format(n));
