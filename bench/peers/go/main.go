// The Go peers of `cargo xtask bench peers`: redsync on five Redis nodes, rueidislock on
// one, etcd's own lock.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A client that goroutines share.
type locker interface {
	// Acquires, however long it takes.
	acquire(ctx context.Context, name string) (guard, error)
	// How often it renews locks by itself, or 0.
	renewsEvery() time.Duration
}

type guard interface {
	release(ctx context.Context) error
	extend(ctx context.Context) error
}

// By name; each file of a peer adds its own.
var peers = map[string]func(nodes []string, tuned bool) (locker, error){}

func main() {
	if err := serve(pairs(os.Args[1:])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(arguments map[string]string) error {
	connect, known := peers[arguments["peer"]]
	if !known {
		return fmt.Errorf("there is no peer %q here", arguments["peer"])
	}
	ctx := context.Background()
	begun := now()
	client, err := connect(strings.Split(arguments["nodes"], ","), arguments["settings"] == "tuned")
	if err != nil {
		return err
	}
	first, err := client.acquire(ctx, fmt.Sprintf("first:%d", begun))
	if err != nil {
		return err
	}
	fmt.Printf("ready %d\n", now()-begun)
	if err := first.release(ctx); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		job := newJob(pairs(strings.Fields(rest)))
		var all *done
		var spent time.Duration
		if kind == "hold" {
			if all, spent, err = hold(ctx, client, job); err != nil {
				return err
			}
		} else {
			before := cpu()
			all = work(ctx, client, job)
			spent = cpu() - before
		}
		all.print(spent)
	}
	return lines.Err()
}

// Runs one function for each task, and puts together what they have done.
func each(tasks int, run func(task int, done *done)) *done {
	parts := make([]done, tasks)
	var group sync.WaitGroup
	for task := range tasks {
		group.Go(func() { run(task, &parts[task]) })
	}
	group.Wait()
	all := &done{}
	for _, part := range parts {
		all.add(part)
	}
	return all
}

func work(ctx context.Context, client locker, job job) *done {
	end := now() + job.time.Nanoseconds()
	return each(job.tasks, func(task int, done *done) {
		for cycle := 0; now() < end; cycle++ {
			called := now()
			guard, err := client.acquire(ctx, job.name(task, cycle))
			if err != nil {
				done.fail(err)
				continue
			}
			acquired := now()
			if job.hold > 0 {
				time.Sleep(job.hold)
			}
			released := now()
			if err := guard.release(ctx); err != nil {
				done.fail(err)
				continue
			}
			done.holds = append(done.holds, held{task, called, acquired, released, now()})
		}
	})
}

// Keeps many locks. Returns the CPU time that renewals took.
func hold(ctx context.Context, client locker, job job) (*done, time.Duration, error) {
	guards := make([][]guard, job.tasks)
	acquired := each(job.tasks, func(task int, done *done) {
		for number := task; number < job.locks; number += job.tasks {
			guard, err := client.acquire(ctx, job.name(task, number))
			if err != nil {
				done.fail(err)
				return
			}
			guards[task] = append(guards[task], guard)
		}
	})
	if acquired.failed > 0 {
		return nil, 0, fmt.Errorf("a lock cannot be had: %s", acquired.error)
	}
	all := &done{}
	var spent time.Duration
	if interval := client.renewsEvery(); interval > 0 {
		time.Sleep(interval / 2)
		before := cpu()
		time.Sleep(job.time)
		spent = cpu() - before
		all.renewals = int(float64(job.locks) * job.time.Seconds() / interval.Seconds())
	} else {
		before := cpu()
		all = each(job.tasks, func(task int, done *done) {
			for _, guard := range guards[task] {
				if err := guard.extend(ctx); err != nil {
					done.fail(err)
				} else {
					done.renewals++
				}
			}
		})
		spent = cpu() - before
	}
	released := each(job.tasks, func(task int, done *done) {
		for _, guard := range guards[task] {
			if err := guard.release(ctx); err != nil {
				done.fail(err)
			}
		}
	})
	all.add(*released)
	return all, spent, nil
}
