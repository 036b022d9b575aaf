//! What was typed.

mod reading;
mod service;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueHint};

pub(crate) use self::reading::{described, remedy, with_dashes};
pub(crate) use self::service::{NewTokenArgs, ServeArgs, TokenCommand, TokenFileArgs};
use crate::capacity::load::parse_amount;

const EXAMPLES: &str = "\
Examples:
  tenure run backup -- ./backup.sh                 one at a time; exit 75 if the lock is taken
  tenure run backup --wait 10m -- ./backup.sh      wait in line for up to ten minutes
  tenure --nodes redis://a,redis://b,redis://c run deploy -- make deploy
  tenure lead scheduler -- ./scheduler             one machine runs it; if it fails, another does
  tenure status backup                             who holds it, for how long, what each node says

Nodes come from --nodes, TENURE_NODES or a configuration file: tenure.toml in
the current folder, ~/.config/tenure/tenure.toml or /etc/tenure.toml. Until you
configure nodes, locks live in a local file, the embedded store.

Exit codes: the command's own (run); 0 success; 1 not held with this token, or
danger found; 64 usage or configuration error; 69 no majority of nodes; 70
internal error; 74 the embedded store cannot be used; 75 the lock is taken; 79
the lock was lost and the command stopped; 128+signal interrupted while waiting.";

/// Named locks with a time limit, decided by a majority of independent nodes
#[derive(Debug, Parser)]
#[command(name = "tenure", version, after_help = EXAMPLES, max_term_width = 110, propagate_version = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Node URLs, separated by commas [env: `TENURE_NODES`]
    ///
    /// `redis://`, `rediss://`, `redis+unix://` or `sqlite:PATH`. A password in a URL is visible to
    /// everyone on this machine: use `?password_file=PATH`, or the configuration file.
    #[arg(long, global = true, value_name = "URL,URL,...", help_heading = "Common options")]
    pub(crate) nodes: Option<String>,
    /// Use a Tenure service instead of nodes: `http://HOST:PORT`, `https://HOST:PORT` or
    /// `unix:/PATH` [env: `TENURE_SERVICE`]
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    pub(crate) service: Option<String>,
    /// File with the token for the service [env: `TENURE_SERVICE_TOKEN_FILE`, or the token itself:
    /// `TENURE_SERVICE_TOKEN`]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) service_token_file: Option<PathBuf>,
    /// File with the CA certificates to verify the service with [env: `TENURE_SERVICE_CA`]
    /// [default: the system's]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) service_ca: Option<PathBuf>,
    /// Configuration file [env: `TENURE_CONFIG`] [default: tenure.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
    /// Fail if no nodes are configured, instead of using the embedded store [env:
    /// `TENURE_REQUIRE_NODES`]
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) require_nodes: bool,
    /// Prefix of every key on the nodes; leave it empty to share locks with other Redlock clients
    /// [env: `TENURE_PREFIX`] [default: tenure:]
    #[arg(long, global = true, value_name = "P", help_heading = "Common options")]
    pub(crate) prefix: Vec<String>,
    /// Time to live: how long the lock lasts unless extended [env: `TENURE_TTL`] [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", help_heading = "Common options")]
    pub(crate) ttl: Option<String>,
    /// How long to wait in line if the lock is taken: a duration or `forever` [env: `TENURE_WAIT`]
    /// [default: do not wait]
    #[arg(long, global = true, value_name = "DURATION", help_heading = "Common options")]
    pub(crate) wait: Option<String>,
    /// Text shown to others as the holder, after process id and host [env: `TENURE_LABEL`]
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Common options")]
    pub(crate) label: Option<String>,
    /// File that remembers Redis nodes, to recognise one that has lost its memory; `off` for none
    /// [env: `TENURE_KNOWN_NODES`] [default: `~/.local/state/tenure/known_nodes`]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) known_nodes: Option<String>,
    /// Print JSON, one object per line
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// No notes, warnings or waiting display; a taken lock is reported by the exit code alone
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub(crate) quiet: bool,
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.as_ref().map(|_| "(not shown)");
        f.debug_struct("Common").field("nodes", &nodes).field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hold a lock while a command runs
    Run(RunArgs),
    /// Run a command on one machine at a time; another takes over if it fails
    Lead(LeadArgs),
    /// Acquire a lock for a script, and print its token, fence and deadline
    Acquire(AcquireArgs),
    /// Extend an acquired lock for another term
    Extend(ExtendArgs),
    /// Release an acquired lock
    Release(ReleaseArgs),
    /// Show who holds a lock, for how long, and what each node says
    Status(StatusArgs),
    /// List all locks, with what each node says
    Ls,
    /// Show locks and nodes live in the terminal
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Follow locks: print a line for each change
    Watch(WatchArgs),
    /// See it work: five local nodes, eight contenders, and keys to break things
    Demo(DemoArgs),
    /// Check nodes and settings, and say what to fix
    Doctor,
    /// Change the node list while clients run, or remove nodes from their fleet
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Serve locks over HTTP to programs in any language
    Serve(ServeArgs),
    /// Manage who may call the service, and what they may do
    #[command(subcommand)]
    Token(TokenCommand),
    /// Measure how fast locks are on these nodes, and what limits them
    Bench(BenchArgs),
    /// Estimate what a load needs: nodes, CPU, memory, connections, latency
    Plan(PlanArgs),
    /// Show the settings in effect and where they come from; secrets are masked
    Config,
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them to a folder
    Man(ManArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure run nightly -- ./import.sh
  tenure run nightly --wait forever --ttl 10s -- sh -c 'echo \"fence $TENURE_FENCE\"; ./import.sh'
  tenure run nightly -E 0 -- ./import.sh           succeed without running if the lock is taken
  tenure run nightly --shared -- ./export.sh       with other --shared runs, never with an import
  tenure run site --owner job-42 -- ./deploy.sh    in deploy.sh: tenure run site --owner job-42 -- ...
  tenure run orders stock -- ./settle.sh           both locks or neither; no deadlock in any order
  tenure run resize --slots 4 --wait forever -- ./resize.sh    at most four at a time
  tenure run report --at-least 50s -- ./report.sh  once a minute, though many machines try

The command's environment has TENURE_LOCK, TENURE_TOKEN, TENURE_FENCE, TENURE_VALID_UNTIL_MS,
TENURE_OWNER (with --owner), and TENURE_NODES or TENURE_CONFIG. If the lock is lost, the command's
whole process group gets SIGTERM, then SIGKILL before anyone else can get the lock; the exit code is
then 79.")]
pub(crate) struct RunArgs {
    /// Name of the lock; several names are locked together, all or none
    #[arg(value_name = "NAME", required = true, num_args = 1..)]
    pub(crate) names: Vec<String>,
    /// Exit code if the lock is taken
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
    /// If the lock cannot be renewed, send SIGTERM this long before it expires [default: ttl / 4]
    #[arg(long, value_name = "DURATION")]
    pub(crate) grace: Option<String>,
    /// Stop the command after this time: a duration or `forever` [default: 1d]
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_hold: Option<String>,
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    /// Let up to K run at a time, 1 to 64 (a semaphore)
    #[arg(long, value_name = "K", conflicts_with_all = ["shared", "owner"])]
    pub(crate) slots: Option<usize>,
    /// Keep the lock for at least this long, even if the command ends sooner; up to the fleet's
    /// `max_ttl`
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["shared", "owner"])]
    pub(crate) at_least: Option<String>,
    /// Keep it always, or only if the command succeeds, so that others can retry after a failure
    #[arg(long, value_name = "WHEN", requires = "at_least", value_enum, default_value_t = AtLeastOn::Always)]
    pub(crate) at_least_on: AtLeastOn,
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// When a lock is kept for longer than its command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AtLeastOn {
    Always,
    Success,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure lead scheduler --ttl 10s -- ./scheduler   on three machines: one runs it, two stand by
  tenure lead scheduler -- sh -c 'exec ./scheduler --epoch \"$TENURE_FENCE\"'

A candidate waits until it is elected, then runs the command. If the lock is lost, it stops the
command as `run` does and runs for election again. When the command exits, so does `lead`, with the
same exit code, and the next candidate is elected at once. TENURE_FENCE is the epoch: it increases
with every election.")]
pub(crate) struct LeadArgs {
    /// Name of the lock that all candidates compete for
    pub(crate) name: String,
    /// If the lock cannot be renewed, send SIGTERM this long before it expires [default: ttl / 4]
    #[arg(long, value_name = "DURATION")]
    pub(crate) grace: Option<String>,
    /// Stop leading after this time: a duration or `forever` [default: forever]
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_hold: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Whom the lock keeps out: everybody else, unless one of these says otherwise.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ModeArgs {
    /// Share the lock with other --shared holders: many readers or one writer
    #[arg(long)]
    pub(crate) shared: bool,
    /// Hold the lock as this owner: runs with the same ID hold it together, everyone else is kept
    /// out (a reentrant lock)
    ///
    /// 1 to 128 bytes without spaces, such as a job id. `run` passes it to the command in
    /// `TENURE_OWNER`.
    #[arg(long, value_name = "ID", conflicts_with = "shared")]
    pub(crate) owner: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  lease=$(tenure acquire nightly --ttl 60s --export) && eval \"$lease\" && echo \"mine, fence $TENURE_FENCE\"
  tenure extend nightly --token \"$TENURE_TOKEN\" && tenure release nightly --token \"$TENURE_TOKEN\"
  token=$(tenure acquire nightly --json | jq -er .token) || exit")]
pub(crate) struct AcquireArgs {
    /// Name of the lock
    pub(crate) name: String,
    /// Print shell assignments for `eval`
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
    /// Exit code if the lock is taken
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure extend nightly --token \"$TENURE_TOKEN\" --ttl 60s")]
pub(crate) struct ExtendArgs {
    /// Name of the lock [env: `TENURE_LOCK`]
    pub(crate) name: Option<String>,
    /// Token printed by `acquire` or the last `extend` [env: `TENURE_TOKEN`]
    #[arg(long, value_name = "T")]
    pub(crate) token: Option<String>,
    /// Fence printed with the token (optional check)
    #[arg(long, value_name = "F")]
    pub(crate) fence: Option<u64>,
    /// Print shell assignments for `eval`
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure release nightly --token \"$TENURE_TOKEN\"
  tenure release --force nightly          take it from its holder; asks first on a terminal")]
pub(crate) struct ReleaseArgs {
    /// Name of the lock [env: `TENURE_LOCK`]
    pub(crate) name: Option<String>,
    /// Token printed by `acquire` or the last `extend` [env: `TENURE_TOKEN`]
    #[arg(long, value_name = "T", conflicts_with = "force")]
    pub(crate) token: Option<String>,
    /// Fence printed with the token (optional check)
    #[arg(long, value_name = "F", conflicts_with = "force")]
    pub(crate) fence: Option<u64>,
    /// Take the lock from its holder, which is not notified and keeps running: two processes may
    /// run at once
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "force")]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tenure status backup --exit-code >/dev/null || echo \"taken or unknown\""
)]
pub(crate) struct StatusArgs {
    /// Name of the lock
    pub(crate) name: String,
    /// Exit with 0 if the lock is free, with 75 if it is taken
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[cfg(feature = "top")]
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: arrows, Enter, / filter, s sort, n nodes, ? help, q quit")]
pub(crate) struct TopArgs {
    /// Enable the F key, which takes a lock from its holder after a confirmation
    #[arg(long)]
    pub(crate) allow_force: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs redis-server (apt install redis-server, brew install redis); without it, the demo uses one
embedded store. Everything it starts listens on 127.0.0.1, lives in a temporary folder and ends with
the demo.

Keys: 1-5 select a node, k kill, s stop, c continue, e empty, r restart; p pause the holder, u resume
it; g restart guard on or off, m empty a majority; ? help, q quit. Without a terminal, keys are read
from standard input and every change is printed on a line.")]
pub(crate) struct DemoArgs {
    /// Stop after this many seconds, and not at the end of standard input
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Do not start the service with the dashboard
    #[arg(long)]
    pub(crate) no_dashboard: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure watch                                     all locks and nodes
  tenure watch backup                              one lock
  tenure watch 'jobs/*' --json                     all names with this prefix, as JSON")]
pub(crate) struct WatchArgs {
    /// Name of the lock, or a prefix followed by `*` [default: all]
    #[arg(value_name = "NAME|PREFIX*")]
    pub(crate) name: Option<String>,
    /// Also show extensions, and changes in waiters and in which nodes agree
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure bench
  tenure --nodes redis://a,redis://b,redis://c bench --json > mine.json
  tenure plan --locks-per-second 5k --measured mine.json

It acquires and releases locks under a temporary prefix of its own, which it removes afterwards;
other locks are not touched. It puts full load on the servers while it runs.")]
pub(crate) struct BenchArgs {
    /// How long to measure
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure plan --locks-per-second 2000 --held 10k --rtt 1ms --names 50k
  tenure plan --locks-per-second 1M --nodes 5 --clients 2000 --names 10M
  tenure bench --json > mine.json && tenure plan --locks-per-second 5k --measured mine.json

It contacts no node. Numbers may end in k, M or G. The formulas are in docs/capacity.md.")]
pub(crate) struct PlanArgs {
    /// Locks acquired and released per second
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) locks_per_second: f64,
    /// Locks held at a time [default: as many as are acquired per second]
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) held: Option<f64>,
    /// Waiters in line at a time
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "0", allow_negative_numbers = true)]
    pub(crate) waiters: f64,
    /// Distinct names per day: nodes keep the fence of each for a day [default: no name is used
    /// twice]
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) names: Option<f64>,
    /// Programs that use locks, each with one connection to each node
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "10", allow_negative_numbers = true)]
    pub(crate) clients: f64,
    /// Round trip to the node that completes the majority: the third-nearest of five
    #[arg(long, value_name = "DURATION", default_value = "1ms")]
    pub(crate) rtt: String,
    /// Cores per node; a server runs commands on one
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "1", allow_negative_numbers = true)]
    pub(crate) cores: f64,
    /// Use the measurements that `tenure bench --json` took on your own nodes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) measured: Option<PathBuf>,
    /// Show which fleet this name belongs to; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) place: Vec<String>,
}

/// A benchmark that is shorter shows nothing; one that is longer is another one's work.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (1.0..=300.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected 1 to 300 seconds".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tenure completions bash > ~/.local/share/bash-completion/completions/tenure"
)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tenure man | man -l -\n  tenure man --folder ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Command to describe [default: `tenure` itself]
    pub(crate) command: Option<String>,
    /// Write a page for every command to this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Move from the configured node list to another while clients of both run
    Change(ChangeArgs),
    /// Remove nodes from their fleet, after a dispute or to use them elsewhere
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure --nodes redis://a,redis://b,redis://c fleet change --to redis://a,redis://b,redis://d
  tenure fleet change --to redis://a,redis://b,redis://d --gone redis://c       c is gone for good

The old list stops granting locks and its holders are notified; the new list grants locks once theirs
have expired, after a quarantine (max_ttl + 10 %) at most. Give clients the new list once the new
nodes are ready. If interrupted, run it again: it resumes where it stopped.")]
pub(crate) struct ChangeArgs {
    /// New node list
    #[arg(long, value_name = "URL,URL,...")]
    pub(crate) to: String,
    /// New fleet name, if the fleet has one [default: unchanged]
    #[arg(long, value_name = "NAME")]
    pub(crate) to_fleet: Option<String>,
    /// A node of the old list that is switched off for good; repeatable
    #[arg(long, value_name = "URL", conflicts_with = "abort")]
    pub(crate) gone: Vec<String>,
    /// Undo a change in progress, as long as the old list still has its locks
    #[arg(long)]
    pub(crate) abort: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure fleet forget redis://c")]
pub(crate) struct ForgetArgs {
    /// Nodes to remove
    #[arg(value_name = "URL", required = true)]
    pub(crate) nodes: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}
