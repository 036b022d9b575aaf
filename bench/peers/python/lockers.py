"""Both poll when refused. Neither has a timeout for a node that hangs; tuned, its client has one."""

import logging

import redis
from pottery import Redlock as Pottery
from redis.backoff import NoBackoff
from redis.retry import Retry
from redlock import Redlock as RedlockPy

logging.disable()  # A dead node is part of the measurement.


def connections(nodes, tuned):
    options = {}
    if tuned:
        # The locks retry themselves.
        options = {"socket_timeout": 0.1, "socket_connect_timeout": 0.1, "retry": Retry(NoBackoff(), 0)}
    addresses = [node.split(":") for node in nodes]
    return [redis.Redis(host=host, port=int(port), **options) for host, port in addresses]


class PotteryLocker:
    def __init__(self, nodes, tuned):
        self.masters = set(connections(nodes, tuned))
        if tuned:
            Pottery._RETRY_DELAY = 0.002

    def acquire(self, name):
        lock = Pottery(key=name, masters=self.masters)
        lock.acquire()
        return lock

    def release(self, lock):
        lock.release()

    def extend(self, lock):
        lock.extend()


class RedlockPyLocker:
    TTL_MS = 30_000

    def __init__(self, nodes, tuned):
        settings = {"retry_count": 10_000, "retry_delay": 0.002} if tuned else {}
        self.manager = RedlockPy(connections(nodes, tuned), **settings)

    def acquire(self, name):
        while True:
            lock = self.manager.lock(name, self.TTL_MS)
            if lock:
                return lock

    def release(self, lock):
        self.manager.unlock(lock)

    def extend(self, lock):
        raise NotImplementedError("it cannot extend locks")


PEERS = {"pottery": PotteryLocker, "redlock-py": RedlockPyLocker}
