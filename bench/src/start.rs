//! From the start of the tool to the start of its command: on the embedded store beside `flock`,
//! and on servers that are far away, in round trips.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::far_cluster::{FarCluster, SERVERS};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// How often each is started in a round, in turns.
const STARTS: usize = 40;

/// To a server that is far away and back: less than a node's default timeout. Other distances are
/// in the benchmark `distance`.
const ROUND_TRIP: Duration = Duration::from_millis(40);

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let tool = tool()?;
    let ratios = [on_the_embedded_store(settings, &tool)?, on_servers_far_away(settings, &tool)?];
    for ratio in ratios {
        if settings.json {
            println!("{}", ratio.json());
        } else {
            println!("  {ratio}");
        }
    }
    Ok(())
}

/// The tool as it was built beside this program.
pub(crate) fn tool() -> Result<PathBuf> {
    let tool = std::env::current_exe()?.with_file_name("tenure");
    ensure!(tool.exists(), "there is no tool to measure; build it: cargo build --release -p tenure-cli");
    Ok(tool)
}

fn on_the_embedded_store(settings: &Settings, tool: &Path) -> Result<Ratio> {
    let folder = std::env::temp_dir().join(format!("tenure-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (mut ours, mut flock, mut syncs) = (vec![], vec![], vec![]);
    let store = format!("sqlite:{}", folder.join("locks.db").display());
    let mut measure = || -> Result<()> {
        for _ in 0..settings.rounds * STARTS {
            ours.push(start(
                Command::new(tool).args(["run", "x", "--", "echo"]).env("TENURE_NODES", &store),
            )?);
            flock.push(start(Command::new("flock").arg(folder.join("flock")).arg("echo"))?);
            syncs.push(sync(&folder.join("synced"))?);
        }
        Ok(())
    };
    let measured = measure();
    std::fs::remove_dir_all(&folder)?;
    measured?;
    let [ours, flock, sync] = [ours, flock, syncs].map(median);
    let allowed = 10.0 + 2.0 * sync;
    if !settings.json {
        println!(
            "from the start of the tool to its command, medians of {} in turns, in ms",
            settings.rounds * STARTS
        );
        println!("  embedded store {ours:.2}   flock {flock:.2}   fdatasync on the same disk {sync:.3}");
        println!("  the difference may be {allowed:.2}: 10 and two fdatasyncs\n");
    }
    let name = "start, embedded store - flock, of what it may be";
    Ok(Ratio { name, value: (ours - flock) / allowed, target: Target::AtMost(1.0) })
}

fn on_servers_far_away(settings: &Settings, tool: &Path) -> Result<Ratio> {
    let cluster = FarCluster::start();
    let (urls, known) = (cluster.urls().join(","), cluster.folder().join("known_nodes"));
    let run = |round_trip: Duration| {
        cluster.move_to([round_trip; SERVERS]);
        let mut command = Command::new(tool);
        command.args(["run", "x", "--", "echo"]).env("TENURE_NODES", &urls).env("TENURE_KNOWN_NODES", &known);
        start(&mut command)
    };
    // The first start of a set of nodes is another matter.
    run(Duration::ZERO)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut pings = runtime.block_on(cluster.pings())?;
    let (mut near, mut far, mut round_trips) = (vec![], vec![], vec![]);
    for _ in 0..settings.rounds * STARTS / 2 {
        near.push(run(Duration::ZERO)?);
        far.push(run(ROUND_TRIP)?);
        round_trips.push(runtime.block_on(pings.majority())?.as_secs_f64() * 1e3);
    }
    let [near, far, round_trip] = [near, far, round_trips].map(median);
    if !settings.json {
        println!("the same on five Redis servers, in ms: {near:.2}");
        println!("  where a round trip takes {round_trip:.2}: {far:.2}\n");
    }
    // Connections are made with the proxy, so that the handshake of TCP takes no time.
    let name = "round trips before the command starts";
    Ok(Ratio { name, value: (far - near) / round_trip, target: Target::AtMost(3.0) })
}

/// How long it takes until the command says something, in milliseconds.
fn start(command: &mut Command) -> Result<f64> {
    let begun = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot be started")?;
    let mut said = [0];
    let read = child.stdout.take().context("a pipe")?.read(&mut said)?;
    let elapsed = begun.elapsed();
    let status = child.wait()?;
    ensure!(read == 1 && status.success(), "a command did not run ({status})");
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// How long a page takes to the disk, in milliseconds.
fn sync(path: &Path) -> Result<f64> {
    let mut file = std::fs::File::options().append(true).create(true).open(path)?;
    let begun = Instant::now();
    file.write_all(&[1; 4096])?;
    file.sync_data()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
