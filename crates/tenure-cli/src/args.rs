//! What was typed.

mod reading;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

pub(crate) use self::reading::{described, remedy, with_dashes};

const EXAMPLES: &str = "\
Examples:
  tenure run backup -- ./backup.sh                 one at a time; exit 75 if the lock is taken
  tenure run backup --wait 10m -- ./backup.sh      wait in line for at most ten minutes
  tenure --nodes redis://a,redis://b,redis://c run deploy -- make deploy
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
    /// The configuration file [env: `TENURE_CONFIG`] [default: tenure.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
    /// Fail if no nodes are named, rather than use a local file [env: `TENURE_REQUIRE_NODES`]
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) require_nodes: bool,
    /// What stands before every name on the nodes; empty shares names with other Redlock clients
    /// [env: `TENURE_PREFIX`] [default: tenure:]
    #[arg(long, global = true, value_name = "P", help_heading = "Common options")]
    pub(crate) prefix: Option<String>,
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
    /// Check nodes and settings: one line each, with what to do
    Doctor,
    /// Change the node list while clients run, or take nodes out of their fleet
    #[command(subcommand)]
    Fleet(FleetCommand),
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

The command sees TENURE_LOCK, TENURE_TOKEN, TENURE_FENCE, TENURE_VALID_UNTIL_MS, and TENURE_NODES or
TENURE_CONFIG. If the lock is lost, the command and everything in its process group get SIGTERM, and
SIGKILL before another can have the lock; the exit code is 79 then.")]
pub(crate) struct RunArgs {
    /// The lock
    pub(crate) name: String,
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
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
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
