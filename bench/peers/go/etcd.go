package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func init() { peers["etcd"] = newEtcd }

// Etcd's own lock. A session is one owner: it may want any number of locks, but each of them once,
// so whoever waits for the same lock in the same process needs another session. It renews one lease
// for all its locks. Tuned, the client looks after its connections, and leaves a member that is
// silent for a second.
type etcdLocker struct {
	client *clientv3.Client

	mutex    sync.Mutex
	sessions []*concurrency.Session
	// Which sessions have or want a lock.
	users map[string]map[int]bool
}

func newEtcd(nodes []string, tuned bool) (locker, error) {
	config := clientv3.Config{Endpoints: nodes, DialTimeout: 5 * time.Second}
	if tuned {
		config.DialKeepAliveTime = time.Second
		config.DialKeepAliveTimeout = time.Second
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	return &etcdLocker{client: client, users: map[string]map[int]bool{}}, nil
}

func (locker *etcdLocker) acquire(ctx context.Context, name string) (guard, error) {
	session, number, err := locker.enter(name)
	if err != nil {
		return nil, err
	}
	guard := etcdGuard{locker, name, number, concurrency.NewMutex(session, name)}
	if err := guard.mutex.Lock(ctx); err != nil {
		locker.leave(name, number)
		return nil, err
	}
	return guard, nil
}

// A session that does not want this lock yet.
func (locker *etcdLocker) enter(name string) (*concurrency.Session, int, error) {
	locker.mutex.Lock()
	defer locker.mutex.Unlock()
	users := locker.users[name]
	if users == nil {
		users = map[int]bool{}
		locker.users[name] = users
	}
	number := 0
	for users[number] {
		number++
	}
	if number == len(locker.sessions) {
		session, err := concurrency.NewSession(locker.client)
		if err != nil {
			return nil, 0, err
		}
		locker.sessions = append(locker.sessions, session)
	}
	users[number] = true
	return locker.sessions[number], number, nil
}

func (locker *etcdLocker) leave(name string, number int) {
	locker.mutex.Lock()
	defer locker.mutex.Unlock()
	delete(locker.users[name], number)
	if len(locker.users[name]) == 0 {
		delete(locker.users, name)
	}
}

// A third of the session's 60 s.
func (locker *etcdLocker) renewsEvery() time.Duration { return 20 * time.Second }

type etcdGuard struct {
	locker *etcdLocker
	name   string
	number int
	mutex  *concurrency.Mutex
}

func (guard etcdGuard) release(ctx context.Context) error {
	defer guard.locker.leave(guard.name, guard.number)
	return guard.mutex.Unlock(ctx)
}

func (guard etcdGuard) extend(context.Context) error { return nil }
