package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How many names a worker has that uses them again.
const reused = 16

type job struct {
	tasks, locks  int
	names, prefix string
	time, hold    time.Duration
}

// When a lock was asked for, had, given up, and gone.
type held struct {
	task                                 int
	called, acquired, released, finished int64
}

type done struct {
	holds            []held
	failed, renewals int
	error            string
}

// What the runner says is right: it is checked there.
func newJob(values map[string]string) job {
	number := func(name string) int { value, _ := strconv.Atoi(values[name]); return value }
	seconds, _ := strconv.ParseFloat(values["seconds"], 64)
	return job{
		tasks: number("tasks"), locks: number("locks"),
		names: values["names"], prefix: values["prefix"],
		time: time.Duration(seconds * float64(time.Second)),
		hold: time.Duration(number("hold_ms")) * time.Millisecond,
	}
}

func (job job) name(task, cycle int) string {
	switch job.names {
	case "shared":
		return job.prefix
	case "reused":
		cycle %= reused
	}
	return fmt.Sprintf("%s:%d:%d", job.prefix, task, cycle)
}

func (done *done) fail(err error) {
	done.failed++
	if done.error == "" {
		done.error = err.Error()
	}
}

func (all *done) add(part done) {
	all.holds = append(all.holds, part.holds...)
	all.failed += part.failed
	all.renewals += part.renewals
	if all.error == "" {
		all.error = part.error
	}
}

func (done *done) print(cpu time.Duration) {
	out := bufio.NewWriter(os.Stdout)
	for _, held := range done.holds {
		fmt.Fprintln(out, held.task, held.called, held.acquired, held.released, held.finished)
	}
	fmt.Fprintf(out, `{"cpu_us":%d,"failed":%d,"renewals":%d,"error":%q}`+"\n",
		cpu.Microseconds(), done.failed, done.renewals, done.error)
	out.Flush()
}

// Go's clock is the machine's monotonic one, with an origin of its own.
var origin, begun = monotonic(), time.Now()

func now() int64 { return origin + time.Since(begun).Nanoseconds() }

func monotonic() int64 {
	var spec unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &spec)
	return spec.Nano()
}

// The CPU time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func pairs(words []string) map[string]string {
	values := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	return values
}
