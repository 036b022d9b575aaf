"""Counts in a file under the lock: URL FILE TIMES. A fence that does not grow ends it with an error."""

import os
import sys

sys.path.insert(0, os.environ["CLIENTS"])
from tenure_lock import Lock

url, file, times = sys.argv[1:]
for _ in range(int(times)):
    with Lock([url], "counter", ttl=5, wait=600, label="python") as lock:
        with open(file) as counter:
            count, fence = map(int, counter.read().split())
        if lock.fence <= fence:
            sys.exit(f"fence {lock.fence} after {fence}")
        lock.check()
        with open(file, "w") as counter:
            counter.write(f"{count + 1} {lock.fence}\n")
