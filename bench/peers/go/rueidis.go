package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func init() { peers["rueidislock"] = newRueidis }

// Rueidislock on one node: all keys of a lock go through one client. It is woken by the node's
// invalidation messages and renews by itself. Tuned, the node does not send it those that it caused
// itself, and it gives a slow answer more than 20 ms.
type rueidisLocker struct{ locker rueidislock.Locker }

func newRueidis(nodes []string, tuned bool) (locker, error) {
	options := rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: nodes[:1]},
		KeyMajority:  1,
	}
	if tuned {
		options.NoLoopTracking = true
		options.TryNextAfter = time.Second
	}
	locker, err := rueidislock.NewLocker(options)
	return rueidisLocker{locker}, err
}

func (locker rueidisLocker) acquire(ctx context.Context, name string) (guard, error) {
	_, cancel, err := locker.locker.WithContext(ctx, name)
	return rueidisGuard{cancel}, err
}

// Half of its default validity of 5 s.
func (locker rueidisLocker) renewsEvery() time.Duration { return 2500 * time.Millisecond }

type rueidisGuard struct{ cancel context.CancelFunc }

func (guard rueidisGuard) release(context.Context) error {
	guard.cancel()
	return nil
}

func (guard rueidisGuard) extend(context.Context) error { return nil }
