"""The Python peers of `cargo xtask bench peers`: pottery and redlock-py, one thread a worker."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from lockers import PEERS
from protocol import Done, Job, pairs


def main():
    arguments = pairs(sys.argv[1:])
    connect = PEERS.get(arguments["peer"])
    if not connect:
        sys.exit(f"there is no peer {arguments['peer']!r} here")
    begun = time.monotonic_ns()
    locker = connect(arguments["nodes"].split(","), arguments["settings"] == "tuned")
    first = locker.acquire(f"first:{begun}")
    print("ready", time.monotonic_ns() - begun, flush=True)
    locker.release(first)
    for line in sys.stdin:
        job = Job(line)
        if job.kind == "hold":
            hold(locker, job)
        else:
            work(locker, job)


def work(locker, job):
    before = time.process_time()
    end = time.monotonic_ns() + job.nanos

    def cycles(task):
        done, cycle = Done(), 0
        while time.monotonic_ns() < end:
            called = time.monotonic_ns()
            try:
                lock = locker.acquire(job.name(task, cycle))
                acquired = time.monotonic_ns()
                if job.hold_ms:
                    time.sleep(job.hold_ms / 1000)
                released = time.monotonic_ns()
                locker.release(lock)
                done.holds.append((task, called, acquired, released, time.monotonic_ns()))
            except Exception as error:  # Whatever it is, it is counted and reported.
                done.fail(error)
            cycle += 1
        return done

    each(job.tasks, cycles).print(time.process_time() - before)


def hold(locker, job):
    """Keeps many locks, each extended by a call."""

    def acquire(task):
        return [locker.acquire(job.name(task, number)) for number in range(task, job.locks, job.tasks)]

    with ThreadPoolExecutor(job.tasks) as pool:
        locks = list(pool.map(acquire, range(job.tasks)))

    def extend(task):
        done = Done()
        for lock in locks[task]:
            try:
                locker.extend(lock)
                done.renewals += 1
            except Exception as error:
                done.fail(error)
        return done

    before = time.process_time()
    done = each(job.tasks, extend)
    spent = time.process_time() - before
    for lock in sum(locks, []):
        locker.release(lock)
    done.print(spent)


def each(tasks, run):
    done = Done()
    with ThreadPoolExecutor(tasks) as pool:
        for part in pool.map(run, range(tasks)):
            done.add(part)
    return done


if __name__ == "__main__":
    main()
