"""Holds the lock until it is lost: URL TTL_MS."""

import os
import sys
import time

sys.path.insert(0, os.environ["CLIENTS"])
from tenure_lock import Lock, LockLost

try:
    with Lock([sys.argv[1]], "x", ttl=int(sys.argv[2]) / 1000, wait=60) as lock:
        print("held", flush=True)
        while True:
            lock.check()
            time.sleep(0.01)
except LockLost:
    print("lost", flush=True)
