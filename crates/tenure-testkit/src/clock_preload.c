// Moves the wall clock of the process it is preloaded into.
//
// The settings are in a file that the test writes and this process maps, so they change while it runs:
//
//     shown = shown_ns + (real - real_ns) * rate
//
// The file holds two readings and a sequence number whose lowest bit says which of them counts. The writer fills in
// the other one, then counts up. A reader that finds the same number before and after has read a whole reading, and a
// writer that is halted half-way keeps nobody waiting.
//
// Everything here may run inside an allocator or a signal handler: no malloc, no locks, and no dlsym, which allocates.
// The kernel is therefore asked directly; that costs a system call where libc needs none.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "SYS_clock_gettime must fill in a 64-bit timespec");

#define NS_PER_S INT64_C(1000000000)

// A reading takes nanoseconds and a change two system calls: not even the second attempt is likely to collide.
#define ATTEMPTS_MAX 1000

struct reading {
    int64_t real_ns;
    int64_t shown_ns;
    double rate;
};

struct settings {
    uint64_t sequence;
    struct reading readings[2];
};

// Null until the constructor has run, and for good in a process without a clock file: then the time is the right one.
static const struct settings *settings;

// A test must not go on with a clock that is not the one it asked for.
static void give_up(const char *why) {
    ssize_t written = write(STDERR_FILENO, why, strlen(why));
    (void)written;
    abort();
}

__attribute__((constructor)) static void map_settings(void) {
    const char *path = getenv("TENURE_CLOCK_FILE");
    if (path == NULL) {
        return;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        give_up("the file that TENURE_CLOCK_FILE names cannot be opened\n");
    }
    void *mapped = mmap(NULL, sizeof(struct settings), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        give_up("the file that TENURE_CLOCK_FILE names cannot be mapped\n");
    }
    close(file);
    settings = mapped;
}

static struct reading reading_in_force(void) {
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        uint64_t before = __atomic_load_n(&settings->sequence, __ATOMIC_ACQUIRE);
        const struct reading *shared = &settings->readings[before & 1];
        struct reading reading;
        __atomic_load(&shared->real_ns, &reading.real_ns, __ATOMIC_RELAXED);
        __atomic_load(&shared->shown_ns, &reading.shown_ns, __ATOMIC_RELAXED);
        __atomic_load(&shared->rate, &reading.rate, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&settings->sequence, __ATOMIC_RELAXED) == before) {
            return reading;
        }
    }
    give_up("the clock file changes faster than it can be read\n");
    __builtin_unreachable();
}

static void move(struct timespec *now) {
    if (settings == NULL) {
        return;
    }
    struct reading reading = reading_in_force();
    int64_t real_ns = now->tv_sec * NS_PER_S + now->tv_nsec;
    int64_t shown_ns = reading.shown_ns + (int64_t)((double)(real_ns - reading.real_ns) * reading.rate);
    now->tv_sec = shown_ns / NS_PER_S;
    now->tv_nsec = shown_ns % NS_PER_S;
    // Division rounds towards zero, and nanoseconds are never negative, not even before 1970.
    if (now->tv_nsec < 0) {
        now->tv_sec -= 1;
        now->tv_nsec += NS_PER_S;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        move(now);
    }
    return result;
}

int gettimeofday(struct timeval *restrict shown, void *restrict zone) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    shown->tv_sec = now.tv_sec;
    shown->tv_usec = now.tv_nsec / 1000;
    if (zone != NULL) {
        memset(zone, 0, sizeof(struct timezone));
    }
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return (time_t)-1;
    }
    if (seconds != NULL) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}
