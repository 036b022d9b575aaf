//! Everything that is said, as text or JSON: nothing else in this crate prints.
//!
//! Results go to standard output, everything else to standard error. A reader that is gone is no
//! mistake of ours, but a result that cannot be written (a full disk) is a failure, and a token
//! that nobody read is one in any case.

mod bench;
mod clock;
mod config;
mod deadlock;
mod demo;
mod json;
mod plan;
mod progress;
#[cfg(feature = "top")]
mod screen;
mod serve;
mod status_line;
mod table;
mod text;
mod token;
mod waiting;
mod watch;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tenure::{Circle, NodeReport, ShutdownError};
use tenure_server::form::milliseconds;

pub(crate) use self::demo::{demo_report, demo_words, time_of_day};
pub(crate) use self::progress::Progress;
#[cfg(feature = "top")]
pub(crate) use self::screen::{Screen, ScreenEvent};
pub(crate) use self::serve::Serving;
pub(crate) use self::text::{duration, plain, shell_word};
pub(crate) use self::token::NewCaller;
pub(crate) use self::waiting::{WaitingDisplay, WaitingNews};
pub(crate) use self::watch::WatchLine;
use crate::advice::Advice;
use crate::args::{Args, Command};
use crate::ballot::Ballot;
use crate::capacity::measured::Benchmark;
use crate::capacity::plan::Plan;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease::Lease;
use crate::report::{List, Report};
use crate::settings::{NodeUrl, Settings};

/// Where and how things are said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    /// Standard output belongs to the command that runs.
    lent: bool,
    /// `eval` waits for what is printed.
    export: bool,
}

impl Output {
    pub(crate) fn new(args: &Args) -> Self {
        let export = match &args.command {
            Command::Acquire(args) => args.export,
            Command::Extend(args) => args.export,
            _ => false,
        };
        let lent = matches!(args.command, Command::Run(_) | Command::Lead(_));
        Self { json: args.common.json, quiet: args.common.quiet, lent, export }
    }

    /// For the processes that `run` starts: they say one thing at most.
    pub(crate) const fn of_helper() -> Self {
        Self { json: false, quiet: false, lent: true, export: false }
    }

    /// For what cannot be understood: programs that wait for JSON or for `eval` are told all the
    /// same.
    pub(crate) fn as_typed() -> Self {
        let typed: Vec<_> = std::env::args_os().skip(1).take_while(|argument| argument != "--").collect();
        let has = |word: &str| typed.iter().any(|argument| argument == word);
        let export = has("--export");
        Self { json: has("--json") && !export, quiet: false, lent: has("run"), export }
    }

    /// What is wrong with what was typed, in one line; or the help that was asked for.
    pub(crate) fn parse_error(&self, error: &clap::Error) -> Exit {
        use clap::error::ErrorKind;
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let _ = error.print();
                Exit::DONE
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                Exit::USAGE
            }
            _ => {
                if let Some(right) = crate::args::with_dashes(error) {
                    return self.failure(&Failure::usage(right));
                }
                let rendered = error.render().to_string();
                let lines: Vec<&str> =
                    rendered.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
                let line = lines.join(" ");
                let line = line.strip_prefix("error: ").unwrap_or(&line);
                // A URL that was put in the wrong place is repeated without its password, which may
                // have blanks in it.
                let words: Vec<String> = line.split(' ').map(|word| NodeUrl::new(word).to_string()).collect();
                let line = NodeUrl::new(words.join(" ")).to_string();
                let remedy = crate::args::remedy(error).unwrap_or_else(|| "see --help".to_owned());
                self.failure(&Failure::usage(format!("{line}; {remedy}")))
            }
        }
    }

    /// A mistake of ours, or a system that lacks what everything else relies on.
    pub(crate) fn panic(panic: &std::panic::PanicHookInfo<'_>) {
        let payload = panic.payload();
        let text =
            payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let what = text.unwrap_or("no reason given");
        let place = panic.location().map_or_else(String::new, |place| format!(" ({place})"));
        say(std::io::stderr(), &format!("tenure: internal error: {}{place}", text::plain(what)));
    }

    /// Why it did not work: one line.
    pub(crate) fn failure(&self, failure: &Failure) -> Exit {
        if self.json {
            let line = json::failure(failure).to_string();
            if self.lent {
                say(std::io::stderr(), &line);
            } else {
                say(std::io::stdout(), &line);
            }
        } else if !(self.quiet && failure.is_contention()) {
            say(std::io::stderr(), &format!("tenure: {}", text::plain(&failure.message)));
        }
        self.refuse_eval(failure.exit);
        failure.exit
    }

    /// An `eval` of nothing would succeed.
    pub(crate) fn refuse_eval(&self, exit: Exit) {
        if self.export {
            say(std::io::stdout(), &format!("(exit {})", exit.number()));
        }
    }

    /// Something worth knowing, on the side.
    pub(crate) fn note(&self, note: &str) {
        if !self.quiet {
            say(std::io::stderr(), &format!("tenure: {note}"));
        }
    }

    /// We wait in a circle, and go on waiting.
    pub(crate) fn deadlock(&self, circle: &Circle) {
        self.note(&format!("{}. {}", deadlock::deadlock(circle, true), deadlock::remedy(circle)));
    }

    pub(crate) fn warn_all(&self, warnings: &[String]) {
        for warning in warnings {
            self.note(&format!("warning: {warning}"));
        }
    }

    /// A lock that was acquired or extended. It fails if nobody can have read it.
    pub(crate) fn lease(&self, lease: &Lease) -> Result<(), Failure> {
        let text = if self.json {
            json::lease(lease).to_string()
        } else if self.export {
            let Lease { name, token, fence, valid_until_ms, .. } = lease;
            let name = text::quoted(name);
            format!(
                "export TENURE_LOCK={name} TENURE_TOKEN={token} TENURE_FENCE={fence} TENURE_VALID_UNTIL_MS={valid_until_ms}"
            )
        } else {
            let Lease { token, fence, valid_for, valid_until_ms, margin, votes, .. } = lease;
            let (granted, nodes) = (votes.granted(), votes.nodes());
            format!(
                "token  {token}\nfence  {fence}\nvalid  until {} ({})\nnodes  {granted} of {nodes}, margin {margin}",
                clock::time(*valid_until_ms),
                text::duration(*valid_for)
            )
        };
        write_line(std::io::stdout(), &text).map_err(|error| unwritten(&error).of_lock(&lease.name))
    }

    /// A lock that was released.
    pub(crate) fn released(
        &self,
        name: &str,
        votes: &Ballot,
        unfinished: Option<&ShutdownError>,
    ) -> Result<(), Failure> {
        let line = text::released(name, votes, unfinished);
        if !self.json {
            self.note(&line);
            return Ok(());
        }
        if unfinished.is_some() {
            self.note(&line);
        }
        result(&json::released(name, votes).to_string())
    }

    pub(crate) fn status(&self, report: &Report) -> Result<(), Failure> {
        if self.json {
            return result(&json::status(report).to_string());
        }
        result(&text::status(report, colours(&std::io::stdout())))
    }

    pub(crate) fn list(&self, list: &List) -> Result<(), Failure> {
        if self.json {
            return list.locks.iter().try_for_each(|report| result(&json::status(report).to_string()));
        }
        result(&text::list(list, colours(&std::io::stdout())))
    }

    pub(crate) fn doctor(&self, nodes: &[NodeReport], advice: &[Advice]) -> Result<(), Failure> {
        if self.json {
            nodes.iter().try_for_each(|node| result(&json::node(node).to_string()))?;
            return advice.iter().try_for_each(|advice| result(&json::advice(advice).to_string()));
        }
        result(&text::doctor(nodes, advice, colours(&std::io::stdout())))
    }

    /// A node list that was changed, or not after all.
    pub(crate) fn changed(
        &self,
        from: &Settings,
        to: &Settings,
        aborted: bool,
        took: Duration,
        without_locks: Option<Duration>,
    ) -> Result<(), Failure> {
        if self.json {
            return result(&json::changed(from, to, aborted, took, without_locks).to_string());
        }
        let took = text::duration(took);
        self.note(&if aborted {
            format!("aborted after {took}: the old list grants locks again")
        } else {
            let pause = without_locks.map_or_else(String::new, |pause| {
                format!("; no locks were granted for {}", text::duration(pause))
            });
            format!("changed in {took}{pause}. Nodes that are only in the old list can be switched off")
        });
        Ok(())
    }

    pub(crate) fn forgotten(&self, nodes: &[String]) -> Result<(), Failure> {
        if self.json {
            return result(&json::forgotten(nodes).to_string());
        }
        self.note(&format!(
            "forgotten: {}; the next client that lists them can use them, after a quarantine",
            nodes.join(", ")
        ));
        Ok(())
    }

    pub(crate) fn config(&self, settings: &Settings) -> Result<(), Failure> {
        if self.json {
            return result(&json::config(settings).to_string());
        }
        result(&config::text(settings))
    }

    /// What was measured.
    pub(crate) fn benchmark(&self, benchmark: &Benchmark) -> Result<(), Failure> {
        if self.json {
            return result(&bench::json(benchmark).to_string());
        }
        result(&bench::text(benchmark))
    }

    /// What a load needs, and which fleet some names belong to.
    pub(crate) fn plan(&self, plan: &Plan, placed: &[(String, String)]) -> Result<(), Failure> {
        if self.json {
            return result(&plan::json(plan, placed).to_string());
        }
        result(&plan::text(plan, placed))
    }

    /// A file for other programs: completions, a manual page.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        readers_may_leave(out.write_all(bytes).and_then(|()| out.flush()))
    }

    /// Shows how far something is.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(!self.quiet && std::io::stderr().is_terminal() && !is_dumb())
    }

    /// Shows that we wait, and for whom.
    pub(crate) fn waiting(&self, name: &str) -> Option<WaitingDisplay> {
        let terminal = std::io::stderr().is_terminal() && !is_dumb();
        (!self.quiet && !self.json).then(|| WaitingDisplay::new(name, terminal))
    }

    /// Asks a person; `None` if there is none.
    pub(crate) fn confirm(&self, question: &str) -> Option<bool> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let mut stderr = std::io::stderr();
        let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// Whether colours are wanted there: on terminals, unless `NO_COLOR` says no.
fn colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused && !is_dumb()
}

/// Whether the terminal can do nothing but print.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Notes and failures: if they cannot be written, there is no place to say so.
fn say(stream: impl Write, line: &str) {
    let _ = write_line(stream, line);
}

fn result(text: &str) -> Result<(), Failure> {
    readers_may_leave(write_line(std::io::stdout(), text))
}

fn readers_may_leave(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(()),
    }
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure::internal(format!("cannot write the result to standard output: {error}"))
}

fn write_line(mut stream: impl Write, text: &str) -> std::io::Result<()> {
    writeln!(stream, "{}", text.trim_end())?;
    stream.flush()
}
