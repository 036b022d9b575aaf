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
  tenure run backup --wait 10m -- ./backup.sh      wait in line for at most ten minutes
  tenure --nodes redis://a,redis://b,redis://c run deploy -- make deploy
  tenure lead scheduler -- ./scheduler             one machine runs it, another when that one fails
  tenure status backup                             who holds it, for how long, what each node says

Nodes come from --nodes, TENURE_NODES or a configuration file: tenure.toml here,
~/.config/tenure/tenure.toml, /etc/tenure.toml. Until you configure nodes,
locks live in a local file.

Exit codes: the command's own (run); 0 done; 1 not held by this token, or
danger found; 64 wrong usage; 69 no majority of nodes; 70 internal error;
74 the embedded store cannot be used; 75 held by another; 79 the lock was
lost and the command stopped; 128+signal interrupted while waiting.";

/// Locks by name, held for a term, decided by a majority of independent nodes
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
    /// The nodes, by URL, separated by commas [env: `TENURE_NODES`]
    ///
    /// `redis://`, `rediss://`, `redis+unix://` or `sqlite:PATH`. A password in it is visible to
    /// everybody on this machine: use `?password_file=PATH`, or the configuration.
    #[arg(long, global = true, value_name = "URL,URL,...", help_heading = "Common options")]
    pub(crate) nodes: Option<String>,
    /// A lock service to use instead of nodes: `http://HOST:PORT`, `https://HOST:PORT` or
    /// `unix:/PATH` [env: `TENURE_SERVICE`]
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    pub(crate) service: Option<String>,
    /// The file with the token that the service knows us by [env: `TENURE_SERVICE_TOKEN_FILE`, or
    /// the token itself: `TENURE_SERVICE_TOKEN`]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) service_token_file: Option<PathBuf>,
    /// The file with certificates to trust the service by [env: `TENURE_SERVICE_CA`] [default:
    /// those of this system]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) service_ca: Option<PathBuf>,
    /// The configuration file [env: `TENURE_CONFIG`] [default: tenure.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
    /// Fail if no nodes are named, rather than use a local file [env: `TENURE_REQUIRE_NODES`]
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) require_nodes: bool,
    /// What stands before every name on the nodes; empty shares names with other Redlock clients
    /// [env: `TENURE_PREFIX`] [default: tenure:]
    #[arg(long, global = true, value_name = "P", help_heading = "Common options")]
    pub(crate) prefix: Vec<String>,
    /// The term: how long the lock lives if nobody extends it [env: `TENURE_TTL`] [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", help_heading = "Common options")]
    pub(crate) ttl: Option<String>,
    /// How long to wait in line if another holds it: a duration or `forever` [env: `TENURE_WAIT`]
    /// [default: do not wait]
    #[arg(long, global = true, value_name = "DURATION", help_heading = "Common options")]
    pub(crate) wait: Option<String>,
    /// What others see when they ask who holds the lock, behind process id and machine [env:
    /// `TENURE_LABEL`]
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Common options")]
    pub(crate) label: Option<String>,
    /// Where to remember Redis nodes, so that one that lost its memory is not taken for a new one:
    /// a file, or `off` [env: `TENURE_KNOWN_NODES`] [default: `~/.local/state/tenure/known_nodes`]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) known_nodes: Option<String>,
    /// One JSON object a line
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// No notes, no warnings, no waiting display, and no word about a lock that another holds
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
    /// Run a command on one machine at a time, and on another when that one fails
    Lead(LeadArgs),
    /// Acquire a lock for a script, and print its token, fence and deadline
    Acquire(AcquireArgs),
    /// Extend an acquired lock for another term
    Extend(ExtendArgs),
    /// Release an acquired lock
    Release(ReleaseArgs),
    /// Who holds a lock, for how long, and what each node says
    Status(StatusArgs),
    /// All locks, with what each node says
    Ls,
    /// Locks and nodes on a terminal, kept up to date
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Follow the locks: one line for each change
    Watch(WatchArgs),
    /// Check nodes and settings: one line each, with what to do
    Doctor,
    /// Change the node list while clients run, or take nodes out of their fleet
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Give locks to programs in any language, over HTTP
    Serve(ServeArgs),
    /// Say who may call the service, and what they may do
    #[command(subcommand)]
    Token(TokenCommand),
    /// Measure how fast locks are on these nodes, and what limits them
    Bench(BenchArgs),
    /// What a load of locks needs: nodes, CPU, memory, connections, latency
    Plan(PlanArgs),
    /// What is in force and where it comes from; secrets are masked
    Config,
    /// Print a script that completes commands and options
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them into a folder
    Man(ManArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure run nightly -- ./import.sh
  tenure run nightly --wait forever --ttl 10s -- sh -c 'echo \"fence $TENURE_FENCE\"; ./import.sh'
  tenure run nightly -E 0 -- ./import.sh           nothing to do if the lock is taken
  tenure run nightly --shared -- ./export.sh       beside others with --shared, never beside an import
  tenure run site --owner job-42 -- ./deploy.sh    in deploy.sh: tenure run site --owner job-42 -- ...
  tenure run orders stock -- ./settle.sh           both locks or none; no deadlock, whatever the order
  tenure run resize --slots 4 --wait forever -- ./resize.sh    at most four at a time
  tenure run report --at-least 50s -- ./report.sh  once a minute, though many machines try

The command sees TENURE_LOCK, TENURE_TOKEN, TENURE_FENCE, TENURE_VALID_UNTIL_MS, TENURE_OWNER (with
--owner), and TENURE_NODES or TENURE_CONFIG. If the lock is lost, the command and everything in its
process group get SIGTERM, and SIGKILL before another can have the lock; the exit code is 79 then.")]
pub(crate) struct RunArgs {
    /// The lock; several names are locked together, all or none
    #[arg(value_name = "NAME", required = true, num_args = 1..)]
    pub(crate) names: Vec<String>,
    /// Exit with this code if another holds the lock
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
    /// How long before the lock ends the command gets SIGTERM, if the lock cannot be renewed
    /// [default: ttl / 4]
    #[arg(long, value_name = "DURATION")]
    pub(crate) grace: Option<String>,
    /// Stop the command after this time at the latest: a duration or `forever` [default: 1d]
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_hold: Option<String>,
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    /// Let so many run at a time: 1 to 64 (a semaphore)
    #[arg(long, value_name = "K", conflicts_with_all = ["shared", "owner"])]
    pub(crate) slots: Option<usize>,
    /// Keep the lock from others for this long, even if the command takes less: at most the fleet's
    /// `max_ttl`
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["shared", "owner"])]
    pub(crate) at_least: Option<String>,
    /// When to keep it: always, or only if the command succeeds, so that another can try again
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

A candidate waits until it is elected, runs the command, and stops it as `run` does if the lock is
lost: then it stands again. When the command ends by itself, so does this, with the command's exit
code, and the next candidate is elected at once. TENURE_FENCE is the epoch: it grows with every
election.")]
pub(crate) struct LeadArgs {
    /// The office: a lock that all candidates want
    pub(crate) name: String,
    /// How long before the lock ends the command gets SIGTERM, if the lock cannot be renewed
    /// [default: ttl / 4]
    #[arg(long, value_name = "DURATION")]
    pub(crate) grace: Option<String>,
    /// Stop leading after this time at the latest: a duration or `forever` [default: forever]
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_hold: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Whom the lock keeps out: everybody else, unless one of these says otherwise.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ModeArgs {
    /// Share the lock with others who do so: many readers, or one without this
    #[arg(long)]
    pub(crate) shared: bool,
    /// Hold the lock for this owner: others with the same ID hold it, too, and everybody else is
    /// kept out (a reentrant lock)
    ///
    /// 1 to 128 bytes without spaces, such as the id of a job. The command of `run` finds it in
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
    /// The lock
    pub(crate) name: String,
    /// Print assignments for `eval` in a shell
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
    /// Exit with this code if another holds the lock
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure extend nightly --token \"$TENURE_TOKEN\" --ttl 60s")]
pub(crate) struct ExtendArgs {
    /// The lock [env: `TENURE_LOCK`]
    pub(crate) name: Option<String>,
    /// The token that `acquire` or the last `extend` printed [env: `TENURE_TOKEN`]
    #[arg(long, value_name = "T")]
    pub(crate) token: Option<String>,
    /// Fence printed with the token (optional check)
    #[arg(long, value_name = "F")]
    pub(crate) fence: Option<u64>,
    /// Print assignments for `eval` in a shell
    #[arg(long, conflicts_with = "json")]
    pub(crate) export: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure release nightly --token \"$TENURE_TOKEN\"
  tenure release --force nightly          take it from its holder; asks first on a terminal")]
pub(crate) struct ReleaseArgs {
    /// The lock [env: `TENURE_LOCK`]
    pub(crate) name: Option<String>,
    /// The token that `acquire` or the last `extend` printed [env: `TENURE_TOKEN`]
    #[arg(long, value_name = "T", conflicts_with = "force")]
    pub(crate) token: Option<String>,
    /// Fence printed with the token (optional check)
    #[arg(long, value_name = "F", conflicts_with = "force")]
    pub(crate) fence: Option<u64>,
    /// Take the lock from whoever holds it. The holder is not told and goes on working: two
    /// processes may run at once
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask
    #[arg(long, short, requires = "force")]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tenure status backup --exit-code >/dev/null || echo \"taken, or nobody can tell\""
)]
pub(crate) struct StatusArgs {
    /// The lock
    pub(crate) name: String,
    /// Say by the exit code whether it is free: 0 if it is, 75 if not
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[cfg(feature = "top")]
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: arrows, Enter, / filter, s sort, n nodes, ? help, q quit")]
pub(crate) struct TopArgs {
    /// Let the key F take a lock from its holder, after a question
    #[arg(long)]
    pub(crate) allow_force: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure watch                                     every lock that is taken or freed, and every node
  tenure watch backup                              one lock
  tenure watch 'jobs/*' --json                     all whose names begin so, for programs")]
pub(crate) struct WatchArgs {
    /// The lock, or what the names begin with and a `*` [default: all]
    #[arg(value_name = "NAME|PREFIX*")]
    pub(crate) name: Option<String>,
    /// Also show extensions, and changes of who waits and which nodes agree
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure bench
  tenure --nodes redis://a,redis://b,redis://c bench --json > mine.json
  tenure plan --locks-per-second 5k --measured mine.json

It acquires and releases locks under a prefix that it makes for itself and removes afterwards; no
lock of anybody else is touched. It keeps the servers as busy as it can meanwhile.")]
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

It asks no node. Numbers may end in k, M or G. docs/capacity.md has the formulas.")]
pub(crate) struct PlanArgs {
    /// Locks that are acquired and released per second
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) locks_per_second: f64,
    /// Locks that are held at a time [default: as many as are acquired in a second]
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) held: Option<f64>,
    /// Acquires that wait in line at a time
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "0", allow_negative_numbers = true)]
    pub(crate) waiters: f64,
    /// Different names a day: the nodes remember the fence of each for so long [default: no name is
    /// used twice]
    #[arg(long, value_name = "N", value_parser = parse_amount, allow_negative_numbers = true)]
    pub(crate) names: Option<f64>,
    /// Programs that use the locks, each with one connection to each node
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "10", allow_negative_numbers = true)]
    pub(crate) clients: f64,
    /// The round trip to the node that makes the majority: the third-nearest of five
    #[arg(long, value_name = "DURATION", default_value = "1ms")]
    pub(crate) rtt: String,
    /// Cores for each node's server; it executes commands on one
    #[arg(long, value_name = "N", value_parser = parse_amount, default_value = "1", allow_negative_numbers = true)]
    pub(crate) cores: f64,
    /// Compute with what `tenure bench --json` measured on your own nodes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) measured: Option<PathBuf>,
    /// Say which fleet this name belongs to; may be repeated
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
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tenure man | man -l -\n  tenure man --folder ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command to describe; `tenure` itself without one
    pub(crate) command: Option<String>,
    /// Write a page for every command into this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Move from the configured node list to another, while clients of either run
    Change(ChangeArgs),
    /// Take nodes out of their fleet: after a dispute, or to use them elsewhere
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tenure --nodes redis://a,redis://b,redis://c fleet change --to redis://a,redis://b,redis://d
  tenure fleet change --to redis://a,redis://b,redis://d --gone redis://c       c is dead and stays off

The old list stops giving locks, its holders are told, and the new list gives locks when theirs are
over: a quarantine (max_ttl + 10 %) at most. Give clients the new list once the new nodes are ready.
If it is interrupted, run it again: it goes on where it was.")]
pub(crate) struct ChangeArgs {
    /// The new node list
    #[arg(long, value_name = "URL,URL,...")]
    pub(crate) to: String,
    /// The new name of the fleet, if it has one [default: the same as before]
    #[arg(long, value_name = "NAME")]
    pub(crate) to_fleet: Option<String>,
    /// This node of the old list is switched off and will not come back; may be repeated
    #[arg(long, value_name = "URL", conflicts_with = "abort")]
    pub(crate) gone: Vec<String>,
    /// Take back a change that was begun, if locks of the old list are not gone yet
    #[arg(long)]
    pub(crate) abort: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure fleet forget redis://c")]
pub(crate) struct ForgetArgs {
    /// The nodes
    #[arg(value_name = "URL", required = true)]
    pub(crate) nodes: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
