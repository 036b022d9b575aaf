"""What the runner and a driver say to each other, in the machine's monotonic time."""

import json
import sys

# How many names a worker has that uses them again.
REUSED = 16


def pairs(words):
    return dict(word.split("=", 1) for word in words)


class Job:
    def __init__(self, line):
        self.kind, *words = line.split()
        values = pairs(words)
        self.tasks = int(values["tasks"])
        self.locks = int(values["locks"])
        self.names = values["names"]
        self.prefix = values["prefix"]
        self.nanos = int(float(values["seconds"]) * 1e9)
        self.hold_ms = int(values["hold_ms"])

    def name(self, task, cycle):
        if self.names == "shared":
            return self.prefix
        return f"{self.prefix}:{task}:{cycle % REUSED if self.names == 'reused' else cycle}"


class Done:
    def __init__(self):
        self.holds, self.failed, self.renewals, self.error = [], 0, 0, ""

    def fail(self, error):
        self.failed += 1
        self.error = self.error or f"{type(error).__name__}: {error}"

    def add(self, part):
        self.holds += part.holds
        self.failed += part.failed
        self.renewals += part.renewals
        self.error = self.error or part.error

    def print(self, cpu):
        for hold in self.holds:
            print(*hold)
        report = {"cpu_us": round(cpu * 1e6), "failed": self.failed}
        report |= {"renewals": self.renewals, "error": self.error}
        print(json.dumps(report))
        sys.stdout.flush()
