//! What an uncontended cycle (acquire, release) costs on five memory nodes: the overhead of core
//! and driver, with nothing of a network in it.
//!
//! `cargo bench -p tenure`. Allocations are counted by the allocator itself and printed first.
#![allow(unsafe_code, reason = "an allocator can only be counted from inside")]
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a benchmark reports and stops")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tenure::{Locks, MemoryNode, Worker};
use tokio::runtime::{Builder, Runtime};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn locks(runtime: &Runtime, worker: Worker) -> Locks {
    let nodes = ["a", "b", "c", "d", "e"].map(MemoryNode::new);
    runtime.block_on(async { Locks::builder().nodes(nodes).worker(worker).build().unwrap() })
}

async fn cycle(locks: &Locks) {
    locks.lock("invoice:42").acquire().await.unwrap().release().await.unwrap();
}

async fn cycles(locks: &Locks, count: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        cycle(locks).await;
    }
    start.elapsed()
}

/// `tasks` tasks that share the cycles, each with a lock of its own.
async fn concurrent(locks: &Locks, tasks: u64, count: u64) -> Duration {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let lock = locks.lock(format!("invoice:{task}"));
            tokio::spawn(async move {
                for _ in 0..count.div_ceil(tasks) {
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

fn count_allocations() {
    let runtime = runtime();
    let locks = locks(&runtime, Worker::CurrentRuntime);
    runtime.block_on(cycles(&locks, 1_000));
    let (allocations, bytes, count) = (ALLOCATIONS.load(Relaxed), BYTES.load(Relaxed), 10_000);
    runtime.block_on(cycles(&locks, count));
    let per_cycle = |counter: &AtomicU64, before| (counter.load(Relaxed) - before) as f64 / count as f64;
    println!(
        "one cycle on five memory nodes: {:.1} allocations, {:.0} bytes",
        per_cycle(&ALLOCATIONS, allocations),
        per_cycle(&BYTES, bytes)
    );
}

fn uncontended(criterion: &mut Criterion) {
    count_allocations();
    let runtime = runtime();
    let mut group = criterion.benchmark_group("uncontended cycle, five memory nodes");
    for (name, worker) in [("current runtime", Worker::CurrentRuntime), ("own thread", Worker::OwnThread)] {
        let locks = locks(&runtime, worker);
        group.bench_function(format!("1 task, {name}"), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(cycles(&locks, count)));
        });
        group.bench_function(format!("64 tasks, {name}"), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(concurrent(&locks, 64, count)));
        });
    }
    group.finish();
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
