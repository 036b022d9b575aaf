// What the runner and a driver say to each other.

// How many names a worker has that uses them again.
const REUSED = 16;

// The machine's monotonic clock, in nanoseconds: a double holds them for a hundred days of uptime.
export function now() {
  const [seconds, nanos] = process.hrtime();
  return seconds * 1e9 + nanos;
}

export const pairs = (words) => Object.fromEntries(words.map((word) => word.split(/=(.*)/s)));

export class Job {
  constructor(line) {
    const [kind, ...words] = line.split(" ");
    const values = pairs(words);
    this.kind = kind;
    this.tasks = Number(values.tasks);
    this.locks = Number(values.locks);
    this.names = values.names;
    this.prefix = values.prefix;
    this.nanos = Number(values.seconds) * 1e9;
    this.holdMs = Number(values.hold_ms);
  }

  name(task, cycle) {
    if (this.names === "shared") return this.prefix;
    return `${this.prefix}:${task}:${this.names === "reused" ? cycle % REUSED : cycle}`;
  }
}

export function report({ holds, failed, renewals, error }, cpu) {
  const lines = holds.map((hold) => hold.join(" "));
  lines.push(JSON.stringify({ cpu_us: cpu.user + cpu.system, failed, renewals, error }));
  process.stdout.write(lines.join("\n") + "\n");
}
