//! What `tenure plan` computes with: what each operation costs a server, and how far what follows
//! from it is from what was measured elsewhere.
//!
//! Costs are taken from fleets of 3 and 5 nodes, from 16 clients that ask alone and from one with
//! 16 tasks, whose locks travel together. Then they are held against points that were not used: 4
//! and 7 nodes, 64 tasks, another number of names; where the tool has a plan for it, the tool is
//! asked. Every server tells its own CPU time and memory (`INFO`), to the microsecond and byte.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tenure::{Guard, Locks, Options, RedisNode};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::client::{Client, FloorClient};
use crate::cluster::Cluster;
use crate::cpu_time;
use crate::measure::{Percentiles, median_of, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// Locks that are acquired before they are released again, so that the two can be told apart.
const HELD: usize = 2_000;

/// The fleets: 3 and 5 nodes to take costs from, 4 and 7 to check.
const NODES: [usize; 4] = [3, 4, 5, 7];
const THREE: usize = 0;
const FOUR: usize = 1;
const FIVE: usize = 2;
const SEVEN: usize = 3;

/// Clients that ask alone, and tasks whose locks travel together.
const CLIENTS: usize = 16;
const TASKS: usize = 16;
/// The number of tasks of the check.
const TASKS_CHECKED: usize = 64;

/// Names for the memory of a fence, and of the check.
const NAMES: usize = 20_000;
const NAMES_CHECKED: usize = 60_000;

const WAITERS: usize = 2_000;

/// After this, nothing is under way any more.
const SETTLED: Duration = Duration::from_millis(10);

/// After this, a server has shrunk what it had for a connection.
const QUIET: Duration = Duration::from_secs(2);

/// Held to be renewed, with a ttl that makes each be renewed every second.
const RENEWED: usize = 4_000;
const RENEWED_TTL: Duration = Duration::from_secs(3);

/// What others may use of a machine whose rates mean something.
const QUIET_MACHINE: f64 = 0.1;

/// What one kind of client cost on one fleet, in microseconds of CPU for each lock.
#[derive(Clone, Copy)]
struct Cost {
    acquire: f64,
    release: f64,
    client: f64,
    per_second: f64,
    /// Bytes on the wire to and from one node.
    wire: f64,
    /// What other processes used of the machine meanwhile. CPU times do not suffer from it, rates
    /// do.
    others: f64,
}

/// Clients of one fleet, on a runtime of one thread.
struct Fleet {
    cluster: Cluster,
    runtime: Runtime,
    /// No name is used twice.
    names: usize,
    /// The memory of a server that nobody has used yet.
    empty: f64,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let tool = std::env::current_exe()?.with_file_name("tenure");
    ensure!(tool.exists(), "there is no tool to ask; build it: cargo build --release -p tenure-cli");
    let begun = Instant::now();
    let mut fleets = NODES.into_iter().map(Fleet::start).collect::<Result<Vec<_>>>()?;
    let time = settings.time;
    // In turns, so that what disturbs the machine disturbs all; medians over the rounds.
    let cases = [(CLIENTS, 1), (1, TASKS), (1, TASKS_CHECKED), (1, 1)];
    let mut measured = vec![vec![vec![]; cases.len()]; fleets.len()];
    for round in 0..settings.rounds {
        for turn in 0..fleets.len() {
            let at = (round + turn) % fleets.len();
            for (case, (clients, tasks)) in cases.into_iter().enumerate() {
                measured[at][case].push(fleets[at].cost(clients, tasks, time)?);
            }
        }
    }
    let costs: Vec<Vec<Cost>> =
        measured.iter().map(|cases| cases.iter().map(|rounds| Cost::median(rounds)).collect()).collect();
    print_points(&costs, &cases, settings.json);
    let five = &mut fleets[FIVE];
    let constants = five.constants(&costs, time)?;
    constants.print(settings.json);
    let memory_checked = Fleet::start(1)?.memory(NAMES_CHECKED)?;
    let checks = constants.check(&tool, &costs, memory_checked)?;
    for ratio in checks {
        println!(
            "{}{}",
            if settings.json { "" } else { "  " },
            if settings.json { ratio.json() } else { ratio.to_string() }
        );
    }
    if !settings.json {
        println!("\nmeasured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// What was measured of every fleet and kind of client.
fn print_points(costs: &[Vec<Cost>], cases: &[(usize, usize)], json: bool) {
    if !json {
        println!(
            "CPU in microseconds for each lock, of a server and of the client; cores of a server; bytes on the wire; what others used of the machine"
        );
        println!(
            "  nodes  clients x tasks   locks/s   acquire   release    client     cores   bytes  others"
        );
    }
    for (nodes, costs) in NODES.into_iter().zip(costs) {
        for ((clients, tasks), cost) in cases.iter().zip(costs) {
            let Cost { acquire, release, client, per_second, wire, others } = cost;
            let cores = cost.server() * per_second / 1e6;
            if json {
                println!(
                    r#"{{"nodes":{nodes},"clients":{clients},"tasks":{tasks},"locks_per_second":{per_second:.0},"acquire_us":{acquire:.2},"release_us":{release:.2},"client_us":{client:.2},"node_cores":{cores:.3},"wire_bytes":{wire:.0},"others":{others:.2}}}"#
                );
            } else {
                println!(
                    "  {nodes:5}{clients:>9} x {tasks:<5}{per_second:>10.0}{acquire:>10.2}{release:>10.2}{client:>10.2}{cores:>10.2}{wire:>8.0}{others:>8.2}"
                );
            }
        }
    }
}

/// Everything that the tool has a number for.
struct Constants {
    alone: Cost,
    /// Fitted to what 16 tasks cost, for 64.
    together: Cost,
    client_single: f64,
    extend: f64,
    extend_wire: f64,
    pass_on: f64,
    overhead: f64,
    memory: Memory,
    waiter: f64,
    connection: f64,
    server: f64,
}

/// Of one server, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    held: f64,
    fence: f64,
    /// In all, while nothing is held.
    used: f64,
    names: usize,
}

impl Fleet {
    fn start(nodes: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = Cluster::of(nodes);
        let empty = cluster.info("memory", "used_memory")?;
        Ok(Self { cluster, runtime, names: 0, empty })
    }

    /// Nodes beyond the majority still work when the client has what it wants.
    fn settle(&self) {
        self.runtime.block_on(async { tokio::time::sleep(SETTLED).await });
    }

    fn connect(&self, count: usize) -> Result<Vec<Locks>> {
        let connect = || {
            let nodes =
                self.cluster.urls().map(|url| RedisNode::parse(&url)).collect::<Result<Vec<_>, _>>()?;
            let mut options = Options::default();
            // A machine that others use is slow, which is no reason to stop.
            options.node_timeout = Some(Duration::from_secs(1));
            self.runtime.block_on(async {
                let locks = Locks::builder().nodes(nodes).defaults(options).build()?;
                locks.ready().await;
                anyhow::Ok(locks)
            })
        };
        (0..count).map(|_| connect()).collect()
    }

    fn disconnect(&self, clients: Vec<Locks>) {
        for locks in clients {
            let _ = self.runtime.block_on(locks.shutdown());
        }
    }

    /// What locks cost that nobody else wants, each name used once.
    fn cost(&mut self, clients: usize, tasks: usize, time: Duration) -> Result<Cost> {
        let clients = self.connect(clients)?;
        // The scripts and the caches are warm then.
        self.acquire(&clients, tasks, 100)?;
        let wire = self.wire()?;
        let (mut acquire, mut release, mut client, mut elapsed) = (0.0, 0.0, Duration::ZERO, Duration::ZERO);
        let (begun, mut locks, busy_before, own_before) =
            (Instant::now(), 0, self.busy()?, cpu_time::of_this_process());
        while begun.elapsed() < time {
            let (server, own, start) = (self.cpu()?, cpu_time::of_this_process(), Instant::now());
            let guards = self.acquire(&clients, tasks, HELD)?;
            let taken = start.elapsed();
            self.settle();
            let between = self.cpu()?;
            let start = Instant::now();
            self.release(guards)?;
            elapsed += taken + start.elapsed();
            self.settle();
            locks += HELD;
            client += cpu_time::of_this_process() - own;
            acquire += between - server;
            release += self.cpu()? - between;
        }
        let (each, busy_after) = (1.0 / locks as f64, self.busy()?);
        let wire = (self.wire()? - wire) * each;
        let own = cpu_time::of_this_process() - own_before;
        let [all, servers] = [0, 1].map(|which| busy_after[which].saturating_sub(busy_before[which]));
        let others = all.saturating_sub(servers + own).div_duration_f64(begun.elapsed()) / cpus();
        self.disconnect(clients);
        Ok(Cost {
            acquire: acquire * each,
            release: release * each,
            client: micros(client) * each,
            per_second: locks as f64 / elapsed.as_secs_f64(),
            wire,
            others,
        })
    }

    /// So many locks, each of a new name, by so many tasks of each client: what each task got.
    fn acquire(&mut self, clients: &[Locks], tasks: usize, count: usize) -> Result<Vec<Vec<Guard>>> {
        let first = self.names;
        self.names += count;
        let workers = clients.len() * tasks;
        self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for worker in 0..workers {
                let locks = clients[worker % clients.len()].clone();
                working.spawn(async move {
                    let mut guards = vec![];
                    for number in (first + worker..first + count).step_by(workers) {
                        guards.push(locks.lock(format!("capacity:{number}")).acquire().await?);
                    }
                    anyhow::Ok(guards)
                });
            }
            let mut guards = vec![];
            while let Some(done) = working.join_next().await {
                guards.push(done??);
            }
            Ok(guards)
        })
    }

    /// Releases them, each task what it has.
    fn release(&self, shares: Vec<Vec<Guard>>) -> Result<()> {
        self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for share in shares {
                working.spawn(async move {
                    for guard in share {
                        guard.release().await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = working.join_next().await {
                done??;
            }
            Ok(())
        })
    }

    fn constants(&mut self, costs: &[Vec<Cost>], time: Duration) -> Result<Constants> {
        let mean = |case: usize| Cost::mean(&costs[THREE][case], &costs[FIVE][case]);
        let (alone, together) = (mean(0), mean(1));
        // Servers that nobody has used yet, so that no memory of others is in between.
        let memory = Fleet::start(1)?.memory(NAMES)?;
        let fresh = Fleet::start(1)?;
        let connection = fresh.connection()?;
        let waiter = fresh.waiter()?;
        let clients = self.connect(CLIENTS)?;
        let pass_on = self.pass_on(&clients, time)? - alone.server();
        self.disconnect(clients);
        let (extend, extend_wire) = self.extend()?;
        Ok(Constants {
            alone,
            together: alone.together(&together, TASKS, TASKS_CHECKED),
            client_single: costs[FIVE][3].client,
            extend,
            extend_wire,
            pass_on: pass_on.max(0.0),
            overhead: self.overhead(time)?,
            memory,
            waiter,
            connection,
            server: self.empty,
        })
    }

    /// What locks and fences of so many new names need.
    fn memory(&mut self, names: usize) -> Result<Memory> {
        let clients = self.connect(1)?;
        let before = self.used()?;
        let guards = self.acquire(&clients, TASKS_CHECKED, names)?;
        self.settle();
        let held = self.used()?;
        self.release(guards)?;
        self.settle();
        let used = self.used()?;
        self.disconnect(clients);
        let each = 1.0 / names as f64;
        Ok(Memory { held: (held - used) * each, fence: (used - before) * each, used: used - before, names })
    }

    /// What a connection needs.
    fn connection(&self) -> Result<f64> {
        // Scripts and the record come with the first.
        self.disconnect(self.connect(1)?);
        let before = self.used()?;
        let clients = self.connect(CLIENTS)?;
        // Servers shrink the buffers of connections that are quiet.
        std::thread::sleep(QUIET);
        let connection = (self.used()? - before) / CLIENTS as f64;
        self.disconnect(clients);
        Ok(connection)
    }

    /// What one who waits in line needs.
    fn waiter(&self) -> Result<f64> {
        let clients = self.connect(CLIENTS)?;
        let each = self.runtime.block_on(async {
            let guard = clients[0].lock("awaited").acquire().await?;
            let before = self.used()?;
            let mut waiting = JoinSet::new();
            for number in 0..WAITERS {
                waiting.spawn(clients[number % clients.len()].lock("awaited").wait_forever().acquire());
            }
            while clients[0].inspect("awaited").await?.waiters != Some(WAITERS as u64) {}
            let used = self.used()?;
            waiting.shutdown().await;
            guard.release().await?;
            anyhow::Ok((used - before) / WAITERS as f64)
        })?;
        self.disconnect(clients);
        Ok(each)
    }

    /// What a lock costs that all clients want.
    fn pass_on(&self, clients: &[Locks], time: Duration) -> Result<f64> {
        let before = self.cpu()?;
        let end = Instant::now() + time;
        let done = self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for locks in clients {
                let lock = locks.lock("wanted").wait_forever();
                working.spawn(async move {
                    let mut done = 0;
                    while Instant::now() < end {
                        lock.acquire().await?.release().await?;
                        done += 1;
                    }
                    anyhow::Ok(done)
                });
            }
            let mut all = 0;
            while let Some(done) = working.join_next().await {
                all += done??;
            }
            anyhow::Ok(all)
        })?;
        ensure!(done > 0, "the lock was never passed on");
        Ok((self.cpu()? - before) / f64::from(done))
    }

    /// What a renewal costs, and its bytes: as those of one client that holds many locks.
    fn extend(&mut self) -> Result<(f64, f64)> {
        let clients = self.connect(1)?;
        let pause = || self.runtime.block_on(async { tokio::time::sleep(RENEWED_TTL).await });
        let (idle, idle_wire) = (self.cpu()?, self.wire()?);
        pause();
        let (idle, idle_wire) = (self.cpu()? - idle, self.wire()? - idle_wire);
        let guards = self.runtime.block_on(async {
            let mut guards = vec![];
            for number in 0..RENEWED {
                guards.push(clients[0].lock(format!("renewed:{number}")).ttl(RENEWED_TTL).acquire().await?);
            }
            anyhow::Ok(guards)
        })?;
        pause();
        let (cpu, wire) = (self.cpu()?, self.wire()?);
        pause();
        let (cpu, wire) = (self.cpu()? - cpu - idle, self.wire()? - wire - idle_wire);
        // A third of the ttl after the last.
        let renewals = 3.0 * RENEWED as f64;
        ensure!(guards.iter().all(Guard::is_valid), "a lock was lost");
        self.release(vec![guards])?;
        self.disconnect(clients);
        Ok(((cpu / renewals).max(0.0), (wire / renewals).max(0.0)))
    }

    /// What one acquire takes longer than five bare commands, until the third answer.
    fn overhead(&self, time: Duration) -> Result<f64> {
        let mut floor = FloorClient::connect(&self.cluster, 1, "bare")?;
        let bare = floor.work(time)?.cycles.iter().map(|cycle| cycle.acquire).collect();
        Box::new(floor).finish()?;
        let clients = self.connect(1)?;
        let end = Instant::now() + time;
        let acquires = self.runtime.block_on(async {
            let mut acquires = vec![];
            while Instant::now() < end {
                let begun = Instant::now();
                let guard = clients[0].lock("single").acquire().await?;
                acquires.push(begun.elapsed());
                guard.release().await?;
            }
            anyhow::Ok(acquires)
        })?;
        self.disconnect(clients);
        Ok((micros(Percentiles::of(acquires).p50) - micros(Percentiles::of(bare).p50)).max(0.0))
    }

    /// The CPU time of a server, in microseconds.
    fn cpu(&self) -> Result<f64> {
        let [user, system] = ["used_cpu_user", "used_cpu_sys"].map(|field| self.cluster.info("cpu", field));
        Ok((user? + system?) * 1e6)
    }

    /// The CPU time of everybody, and of all servers.
    fn busy(&self) -> Result<[Duration; 2]> {
        Ok([cpu_time::of_all_processes()?, self.cluster.cpu_time()?])
    }

    /// The memory of a server, in bytes.
    fn used(&self) -> Result<f64> {
        self.cluster.info("memory", "used_memory")
    }

    fn wire(&self) -> Result<f64> {
        let fields = ["total_net_input_bytes", "total_net_output_bytes"];
        fields.map(|field| self.cluster.info("stats", field)).into_iter().sum()
    }
}

impl Cost {
    fn median(rounds: &[Self]) -> Self {
        let middle = |figure| median_of(rounds, figure);
        Self {
            acquire: middle(|cost| cost.acquire),
            release: middle(|cost| cost.release),
            client: middle(|cost| cost.client),
            per_second: middle(|cost| cost.per_second),
            wire: middle(|cost| cost.wire),
            others: middle(|cost| cost.others),
        }
    }

    fn mean(one: &Self, other: &Self) -> Self {
        let mean = |of: fn(&Self) -> f64| f64::midpoint(of(one), of(other));
        Self {
            acquire: mean(|cost| cost.acquire),
            release: mean(|cost| cost.release),
            client: mean(|cost| cost.client),
            per_second: mean(|cost| cost.per_second),
            wire: mean(|cost| cost.wire),
            others: mean(|cost| cost.others),
        }
    }

    fn server(&self) -> f64 {
        self.acquire + self.release
    }

    /// From the cost alone and with so many in a message to that with another number: a part is
    /// paid once for the message, the rest for each lock.
    fn together(&self, some: &Self, count: usize, other: usize) -> Self {
        let predict = |alone: f64, some: f64| {
            let each = (some * count as f64 - alone) / (count as f64 - 1.0);
            each + (alone - each) / other as f64
        };
        Self {
            acquire: predict(self.acquire, some.acquire),
            release: predict(self.release, some.release),
            client: predict(self.client, some.client),
            ..*some
        }
    }
}

impl Constants {
    /// As `crates/tenure-cli/src/capacity/costs.rs` has them.
    fn print(&self, json: bool) {
        let Self { alone, together, memory, .. } = self;
        let numbers = [
            ("acquire.alone", alone.acquire),
            ("acquire.together", together.acquire),
            ("release.alone", alone.release),
            ("release.together", together.release),
            ("extend_us", self.extend),
            ("pass_on_us", self.pass_on),
            ("client.alone", self.client_single),
            ("client.together", together.client),
            ("overhead_us", self.overhead),
            ("held_bytes", memory.held),
            ("fence_bytes", memory.fence),
            ("waiter_bytes", self.waiter),
            ("connection_bytes", self.connection),
            ("server_bytes", self.server),
            ("cycle_wire_bytes", alone.wire),
            ("extend_wire_bytes", self.extend_wire),
        ];
        if !json {
            println!("costs, per node (client: per lock on five nodes); CPU in microseconds");
        }
        for (name, number) in numbers {
            if json {
                println!(r#"{{"cost":"{name}","value":{number:.2}}}"#);
            } else {
                println!("  {name:20}{number:>14.2}");
            }
        }
    }

    /// Asks the tool about points that no constant was taken from.
    fn check(&self, tool: &Path, costs: &[Vec<Cost>], memory: Memory) -> Result<Vec<Ratio>> {
        let file = std::env::temp_dir().join(format!("tenure-capacity-{}.json", std::process::id()));
        std::fs::write(&file, self.as_benchmark())?;
        let checked = self.checks(tool, &file, costs, memory);
        std::fs::remove_file(&file)?;
        checked
    }

    fn checks(&self, tool: &Path, file: &PathBuf, costs: &[Vec<Cost>], memory: Memory) -> Result<Vec<Ratio>> {
        let plan = |nodes: usize, per_second: f64, names: usize, field: &str| -> Result<f64> {
            let mut command = Command::new(tool);
            command.args(["plan", "--json", "--held", "0", "--clients", "1"]).arg("--measured").arg(file);
            command.args(["--nodes", &nodes.to_string(), "--names", &names.to_string()]);
            command.args(["--locks-per-second", &format!("{per_second:.3}")]);
            let said = command.output().context("the tool could not be started")?;
            let said = String::from_utf8(said.stdout)?;
            let number =
                said.split(&format!("\"{field}\":")).nth(1).and_then(|rest| rest.split([',', '}']).next());
            number.and_then(|number| number.parse().ok()).with_context(|| format!("no {field} in {said}"))
        };
        let cores = |cost: &Cost| cost.server() * cost.per_second / 1e6;
        let four = &costs[FOUR][0];
        let four_cores = plan(4, four.per_second, 1, "node_cores")?;
        // Fences that are not trimmed yet are planned for.
        let fences = plan(5, 1.0, memory.names, "fences")? / 1.1;
        let off = |name, planned: f64, measured: f64| {
            let value = (planned / measured).max(measured / planned);
            Ratio { name, value, target: Target::AtMost(1.25) }
        };
        // Here every core is busy, with servers and the client.
        let (three, five, seven) = (&costs[THREE][1], &costs[FIVE][1], &costs[SEVEN][1]);
        let client = five.client + (five.client - three.client);
        let rate = cpus() * 1e6 / (client + 7.0 * Cost::mean(three, five).server());
        let mut checks = vec![
            off("plan: cores of a node, 4 nodes, 16 clients, off by", four_cores, cores(four)),
            off("plan: memory of 60,000 names, off by", fences, memory.used),
            off(
                "CPU of a lock, 5 nodes, 64 tasks, from 16, off by",
                self.together.server(),
                costs[FIVE][2].server(),
            ),
            off("CPU of a lock, 7 nodes, 16 tasks, off by", Cost::mean(three, five).server(), seven.server()),
        ];
        // Whoever else is busy takes a part of the rate, and of nothing else.
        if [three, five, seven].iter().all(|cost| cost.others < QUIET_MACHINE) {
            checks.push(off("locks/s here, 7 nodes, 16 tasks, off by", rate, seven.per_second));
        }
        Ok(checks)
    }

    /// The words of `tenure bench --json`.
    fn as_benchmark(&self) -> String {
        let load = |clients: usize, tasks: usize, server: f64, client: f64| {
            format!(
                r#"{{"clients":{clients},"tasks":{tasks},"server_cpu_us":{server},"client_cpu_us":{client},"acquire_p50_us":{}}}"#,
                self.overhead
            )
        };
        let loads = [
            load(1, 1, self.alone.server(), self.client_single),
            load(1, 64, self.together.server(), self.together.client),
            load(16, 1, self.alone.server(), self.alone.client),
        ];
        format!(r#"{{"loads":[{}],"majority_rtt_us":0}}"#, loads.join(","))
    }
}

/// The cores of this machine.
fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64)
}
