//! Reading what was typed: names that look like flags, flags that a command would ignore, and what
//! was probably meant.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};

use super::{AcquireArgs, Args, Command, ExtendArgs, LeadArgs, ReleaseArgs, RunArgs, StatusArgs};
use crate::output::shell_word;
use crate::settings::NodeUrl;

/// Stands for a name while the rest is read. Nobody can type it.
const PLACEHOLDER: &str = "\0";

impl Args {
    /// What was typed.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let typed: Vec<OsString> = std::env::args_os().collect();
        Self::try_parse_from(&typed).or_else(|error| {
            if error.kind() == ErrorKind::DisplayHelp {
                let described = described().try_get_matches_from(&typed);
                return described.and_then(|matches| Self::from_arg_matches(&matches));
            }
            let with_such_a_name = match (error.kind(), invalid(&error)) {
                (ErrorKind::UnknownArgument, Some(flag)) if !flag.starts_with("--") => {
                    with_name_like_a_flag(&typed, flag)
                }
                (ErrorKind::MissingRequiredArgument, _) => with_name_behind_dashes(&typed),
                _ => None,
            };
            with_such_a_name.ok_or(error)
        })
    }

    /// A flag that was typed and that the command would ignore.
    pub(crate) fn ignored(&self) -> Option<&'static str> {
        let common = &self.common;
        let typed = [
            ("wait", common.wait.is_some()),
            ("label", common.label.is_some()),
            ("ttl", common.ttl.is_some()),
            ("nodes", common.nodes.is_some()),
            ("service", common.service.is_some()),
            ("service-token-file", common.service_token_file.is_some()),
            ("service-ca", common.service_ca.is_some()),
            ("config", common.config.is_some()),
            ("require-nodes", common.require_nodes),
            ("prefix", !common.prefix.is_empty()),
            ("known-nodes", common.known_nodes.is_some()),
            ("json", common.json),
        ];
        let typed = typed.into_iter().filter(|(_, typed)| *typed).map(|(flag, _)| flag);
        typed.into_iter().find(|flag| is_ignored(flag, self.command.word()))
    }
}

/// The tool as its help describes it: flags that a command would ignore are left out there.
pub(crate) fn described() -> clap::Command {
    let mut tool = Args::command();
    // Flags that all commands have come to them then.
    tool.build();
    tool.mut_subcommands(|command| {
        let word = command.get_name().to_owned();
        described_as(command, &word)
    })
}

/// A command, or a part of it, with the flags that are not ignored by it.
fn described_as(command: clap::Command, word: &str) -> clap::Command {
    let command = command.mut_args(|argument| {
        let ignored = argument.get_long().is_some_and(|flag| is_ignored(flag, word));
        let argument = argument.hide(ignored);
        let (help, value) = match (word, argument.get_long()) {
            ("plan", Some("nodes")) => ("Number of nodes in a fleet, or their URLs [default: 5]", "N"),
            ("token", Some("prefix")) => {
                ("Prefix of the names the caller may use; repeatable [default: all names]", "P")
            }
            _ => return argument,
        };
        argument.help(help).long_help(help).value_name(value)
    });
    command.mut_subcommands(|part| described_as(part, word))
}

/// Whether a common flag means nothing to a command.
fn is_ignored(flag: &str, command: &str) -> bool {
    let needed = match flag {
        "wait" | "label" => Use::Acquires,
        "ttl" => Use::Terms,
        // Not in their order: it stands for nodes, where locks are asked for.
        "service" | "service-token-file" | "service-ca" => return !may_use_service(command),
        "nodes" | "config" | "require-nodes" | "prefix" | "known-nodes" | "json" => Use::Nodes,
        _ => Use::Nothing,
    };
    let used = match command {
        // A candidate waits until it is elected.
        "lead" if flag == "wait" => Use::Terms,
        "run" | "lead" | "acquire" | "config" => Use::Acquires,
        "extend" | "doctor" | "serve" => Use::Terms,
        "release" | "status" | "ls" | "watch" | "fleet" | "bench" => Use::Nodes,
        "top" if flag != "json" => Use::Nodes,
        // It has nodes of its own.
        "demo" if flag == "json" => Use::Nodes,
        // It asks nobody, but has a fleet and a term in mind.
        "plan" if matches!(flag, "nodes" | "ttl" | "json") => Use::Terms,
        // It asks nobody, but says which names a caller may use.
        "token" if matches!(flag, "config" | "prefix" | "json") => Use::Nodes,
        _ => Use::Nothing,
    };
    needed > used
}

/// Whether a service can do what a command asks nodes for.
fn may_use_service(command: &str) -> bool {
    matches!(command, "run" | "lead" | "acquire" | "extend" | "release" | "status" | "ls" | "watch" | "top")
}

/// What a command does with its settings; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Nothing,
    Nodes,
    Terms,
    Acquires,
}

impl Command {
    pub(crate) fn may_use_service(&self) -> bool {
        may_use_service(self.word())
    }

    /// What is typed for it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Lead(_) => "lead",
            Self::Acquire(_) => "acquire",
            Self::Extend(_) => "extend",
            Self::Release(_) => "release",
            Self::Status(_) => "status",
            Self::Ls => "ls",
            #[cfg(feature = "top")]
            Self::Top(_) => "top",
            Self::Watch(_) => "watch",
            Self::Demo(_) => "demo",
            Self::Doctor => "doctor",
            Self::Fleet(_) => "fleet",
            Self::Serve(_) => "serve",
            Self::Token(_) => "token",
            Self::Bench(_) => "bench",
            Self::Plan(_) => "plan",
            Self::Config => "config",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }
}

/// Takes a flag that no command has for the name, where the name is still missing.
fn with_name_like_a_flag(typed: &[OsString], letter: &str) -> Option<Args> {
    let until = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    let is_it = |word: &OsString| {
        let word = word.to_string_lossy();
        word.starts_with('-') && !word.starts_with("--") && word.contains(letter.trim_start_matches('-'))
    };
    let at = typed[..until].iter().position(is_it)?;
    with_name(typed, at..at + 1, &typed[at])
}

/// `tenure run -- NAME -- CMD`: what stands behind `--` is no flag. Others than `run` have that
/// already.
fn with_name_behind_dashes(typed: &[OsString]) -> Option<Args> {
    let dashes = typed.iter().position(|word| word == "--")?;
    let [name, second, ..] = &typed[dashes + 1..] else { return None };
    if second == "--" { with_name(typed, dashes..dashes + 2, name) } else { None }
}

/// What is typed with this name in the place of some words, if that is where a name belongs.
fn with_name(typed: &[OsString], place: Range<usize>, name: &OsStr) -> Option<Args> {
    let mut safe = typed.to_vec();
    safe.splice(place, [OsString::from(PLACEHOLDER)]);
    let mut args = Args::try_parse_from(safe).ok()?;
    let found = match &mut args.command {
        // Of several names none looks like a flag: that would be a mistake.
        Command::Run(RunArgs { names, .. }) if names.len() == 1 => names.first_mut()?,
        Command::Lead(LeadArgs { name, .. })
        | Command::Acquire(AcquireArgs { name, .. })
        | Command::Status(StatusArgs { name, .. }) => name,
        Command::Extend(ExtendArgs { name, .. }) | Command::Release(ReleaseArgs { name, .. }) => {
            name.as_mut()?
        }
        _ => return None,
    };
    if found != PLACEHOLDER {
        return None;
    }
    name.to_str()?.clone_into(found);
    Some(args)
}

/// What to type in place of what was typed, if that is known.
pub(crate) fn remedy(error: &clap::Error) -> Option<String> {
    let similar = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let meant = similar.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.as_str()),
        ContextValue::Strings(words) => words.first().map(String::as_str),
        _ => None,
    });
    meant.map(|meant| format!("did you mean {meant}?"))
}

/// `tenure run x ls`, as it should be typed.
pub(crate) fn with_dashes(error: &clap::Error) -> Option<String> {
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    let run = typed.iter().position(|word| word == "run")?;
    if typed.iter().any(|word| word == "--") {
        return None;
    }
    // What follows the first name was most likely meant to be the command.
    let is_meant = |at: &usize| {
        let tool = std::iter::once(OsString::from("tenure"));
        let words =
            typed[..*at].iter().cloned().chain([OsString::from("--")]).chain(typed[*at..].iter().cloned());
        let args = Args::try_parse_from(tool.chain(words));
        matches!(args, Ok(Args { command: Command::Run(RunArgs { names, .. }), .. }) if names.len() == 1)
    };
    let second = (run + 2..typed.len()).rev().find(is_meant);
    let (before, command) = match (error.kind(), second) {
        (ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument, Some(at)) => {
            (&typed[..at], words(&typed[at..]))
        }
        (ErrorKind::MissingRequiredArgument, None) => match error.get(ContextKind::InvalidArg)? {
            ContextValue::Strings(missing) if missing.len() == 1 && missing[0].starts_with("<CMD>") => {
                (&typed[..], "COMMAND".to_owned())
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(format!("put `--` before the command: `tenure {} -- {command}`", words(before)))
}

/// Words as one types them in a shell, without the passwords in them.
fn words(words: &[OsString]) -> String {
    let shown = |word: &OsString| shell_word(&NodeUrl::new(word.to_string_lossy()).masked());
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn invalid(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(word) => Some(word),
        _ => None,
    }
}
