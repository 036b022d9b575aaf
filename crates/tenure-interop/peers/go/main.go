// The Go peer of `cargo xtask interop`: Redsync with go-redis. See ../README.md for the protocol.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

type driver struct {
	redsync  *redsync.Redsync
	recreate bool
	held     map[string]*redsync.Mutex
}

type answer map[string]any

func main() {
	values := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		values[name] = value
	}
	timeout, _ := strconv.Atoi(values["timeout_ms"])
	var pools []redis.Pool
	for _, node := range strings.Split(values["nodes"], ",") {
		options := &client.Options{Addr: node}
		if timeout > 0 {
			limit := time.Duration(timeout) * time.Millisecond
			options.DialTimeout, options.ReadTimeout, options.WriteTimeout = limit, limit, limit
			options.ContextTimeoutEnabled = true
			options.MaxRetries = -1
		}
		pools = append(pools, goredis.NewPool(client.NewClient(options)))
	}
	driver := &driver{redsync.New(pools...), values["recreate"] == "true", map[string]*redsync.Mutex{}}
	say(answer{"ready": true, "version": version()})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		begun := now()
		answer, err := driver.do(strings.Fields(lines.Text()))
		if err != nil {
			answer["error"] = err.Error()
		}
		answer["begun"], answer["ended"] = begun, now()
		say(answer)
	}
}

func (driver *driver) do(words []string) (answer, error) {
	switch {
	case len(words) == 3 && (words[0] == "try" || words[0] == "lock"):
		return outcome(driver.acquire(words[1], millis(words[2]), words[0] == "try"))
	case len(words) == 4 && words[0] == "wait":
		return outcome(driver.wait(words[1], millis(words[2]), millis(words[3])))
	case len(words) == 2 && words[0] == "unlock":
		return outcome(driver.release(words[1]))
	case len(words) == 2 && words[0] == "extend":
		mutex := driver.held[words[1]]
		if mutex == nil {
			return outcome(errors.New("not locked here"))
		}
		_, err := mutex.Extend()
		return outcome(err)
	case len(words) == 5 && words[0] == "count":
		times, _ := strconv.Atoi(words[4])
		return driver.count(words[1], millis(words[2]), words[3], times)
	case len(words) == 5 && words[0] == "turns":
		return driver.turns(words[1], millis(words[2]), millis(words[3]), millis(words[4]))
	}
	return answer{"ok": false}, fmt.Errorf("unknown: %v", words)
}

func (driver *driver) acquire(name string, ttl time.Duration, once bool) error {
	mutex := driver.redsync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithSetNXOnExtend())
	if !driver.recreate {
		mutex = driver.redsync.NewMutex(name, redsync.WithExpiry(ttl))
	}
	attempt := mutex.Lock
	if once {
		attempt = mutex.TryLock
	}
	if err := attempt(); err != nil {
		return err
	}
	driver.held[name] = mutex
	return nil
}

// Calls Lock again and again: it gives up after 32 tries.
func (driver *driver) wait(name string, ttl, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		err := driver.acquire(name, ttl, false)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (driver *driver) release(name string) error {
	mutex := driver.held[name]
	if mutex == nil {
		return errors.New("not locked here")
	}
	delete(driver.held, name)
	ok, err := mutex.Unlock()
	// A majority has confirmed it; nodes that are gone have not.
	if ok {
		return nil
	}
	return err
}

func (driver *driver) count(name string, ttl time.Duration, file string, times int) (answer, error) {
	for done := 0; done < times; done++ {
		if err := driver.wait(name, ttl, time.Minute); err != nil {
			return answer{"ok": false, "done": done}, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return answer{"ok": false, "done": done}, err
		}
		number, _ := strconv.Atoi(string(text))
		if err := os.WriteFile(file, []byte(strconv.Itoa(number+1)), 0o644); err != nil {
			return answer{"ok": false, "done": done}, err
		}
		_ = driver.release(name)
	}
	return answer{"ok": true, "done": times}, nil
}

func (driver *driver) turns(name string, ttl, hold, duration time.Duration) (answer, error) {
	turns := 0
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if driver.acquire(name, ttl, false) == nil {
			turns++
			time.Sleep(hold)
			_ = driver.release(name)
		}
	}
	return answer{"ok": true, "done": turns}, nil
}

func outcome(err error) (answer, error) { return answer{"ok": err == nil}, err }

func millis(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

// The machine's monotonic clock, which all processes share.
func now() int64 {
	const monotonic = 1
	var time syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&time)), 0)
	return time.Nano()
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/go-redsync/redsync/v4" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func say(answer answer) {
	text, _ := json.Marshal(answer)
	fmt.Println(string(text))
}
