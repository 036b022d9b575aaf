package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

func init() { peers["redsync"] = newRedsync }

// Redsync with go-redis: a pool of connections to each node, `SET NX PX` to all, polls when
// refused. Tuned, it returns at the majority, its client gives up on a node after 100 ms, and it
// polls often.
type redsyncLocker struct {
	redsync *redsync.Redsync
	options []redsync.Option
}

func newRedsync(nodes []string, tuned bool) (locker, error) {
	var pools []redis.Pool
	for _, node := range nodes {
		options := &client.Options{Addr: node}
		if tuned {
			options.DialTimeout = 100 * time.Millisecond
			options.ReadTimeout = 100 * time.Millisecond
			options.WriteTimeout = 100 * time.Millisecond
			options.ContextTimeoutEnabled = true
			options.MaxRetries = -1
			options.PoolSize = 64
		}
		pools = append(pools, goredis.NewPool(client.NewClient(options)))
	}
	locker := &redsyncLocker{redsync: redsync.New(pools...)}
	if tuned {
		locker.options = []redsync.Option{
			redsync.WithFailFast(true),
			redsync.WithTries(10_000),
			redsync.WithRetryDelay(time.Millisecond),
		}
	}
	return locker, nil
}

func (locker *redsyncLocker) acquire(ctx context.Context, name string) (guard, error) {
	mutex := locker.redsync.NewMutex(name, locker.options...)
	return redsyncGuard{mutex}, mutex.LockContext(ctx)
}

func (locker *redsyncLocker) renewsEvery() time.Duration { return 0 }

type redsyncGuard struct{ mutex *redsync.Mutex }

func (guard redsyncGuard) release(ctx context.Context) error {
	_, err := guard.mutex.UnlockContext(ctx)
	return err
}

func (guard redsyncGuard) extend(ctx context.Context) error {
	_, err := guard.mutex.ExtendContext(ctx)
	return err
}
