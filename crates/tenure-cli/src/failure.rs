//! What went wrong, as it is told: one line, one word for programs, one exit code.

use std::time::Duration;

use tenure::config::ConfigError;
use tenure::{
    AcquireError, BuildError, ExtendError, Fault, LockReport, NodeAnswer, ReleaseError, Vote, Votes,
};
use tenure_server::form::kind_word;

use crate::ballot::Ballot;
use crate::exit_code::Exit;
use crate::hold::Wanted;
use crate::output::{duration, plain};
use crate::settings::Settings;

/// Why a command did not do what it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// For programs: the field `error`.
    pub(crate) word: &'static str,
    /// For people: one line.
    pub(crate) message: String,
    /// For programs: what else is known. Apart, so that results stay small.
    pub(crate) about: Box<About>,
}

/// Which lock it is about, and what the nodes said.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) name: Option<String>,
    pub(crate) holder: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) votes: Option<Ballot>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, word: &'static str, message: impl Into<String>) -> Self {
        Self { exit, word, message: message.into(), about: Box::default() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, "usage", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::INTERNAL, "internal", message)
    }

    pub(crate) fn of_lock(mut self, name: &str) -> Self {
        self.about.name = Some(name.to_owned());
        self
    }

    pub(crate) fn with_votes(mut self, votes: &Votes) -> Self {
        self.about.votes = Some(Ballot::from(votes));
        self
    }

    /// That others have it is an outcome rather than a mistake: `--quiet` leaves it to the exit
    /// code.
    pub(crate) fn is_contention(&self) -> bool {
        self.word == "contended"
    }

    /// No majority in time: of nodes elsewhere, or of the one that is a file.
    fn unavailable(word: &'static str, message: String, votes: &Votes) -> Self {
        let embedded = votes.iter().all(|vote| vote.node.starts_with("sqlite:"));
        let failure = if embedded {
            // Of one node there is nothing to say but what is wrong with it.
            let reason = votes.iter().find_map(|vote| match &vote.vote {
                Some(Vote::Unknown(Fault::Store { reason, .. })) => Some(plain(reason)),
                _ => None,
            });
            Self::new(Exit::STORE, "store", reason.unwrap_or(message))
        } else if votes.is_misconfigured() {
            Self::new(Exit::USAGE, "configuration", message)
        } else {
            Self::new(Exit::UNAVAILABLE, word, message)
        };
        failure.with_votes(votes)
    }

    /// While we wait, no node can come to vote by itself.
    pub(crate) fn misconfigured(name: &str, votes: &Votes) -> Self {
        let message = format!("lock {name:?} is unavailable: {}. {}", votes.outage(), votes.remedy());
        Self::unavailable("unavailable", message, votes).of_lock(name)
    }

    /// There is no lock to measure. It is about the nodes alone: nobody has heard of that lock.
    pub(crate) fn unmeasured(error: &AcquireError) -> Self {
        let AcquireError::Unavailable { votes, retry_after, .. } = error else {
            return Self::acquire(error, Exit::HELD);
        };
        let message = format!("cannot measure: {}. {}", votes.outage(), votes.remedy());
        let mut failure = Self::unavailable("unavailable", message, votes);
        failure.about.retry_after = *retry_after;
        failure
    }

    /// Nobody can say who has the lock.
    pub(crate) fn unknown(report: &LockReport, settings: &Settings) -> Self {
        let name = &report.name;
        let message =
            format!("lock {name:?} is unavailable: no majority of nodes can vote. {}", report.outage());
        let exit = Exit::without_majority(settings, report.nodes.iter().map(NodeAnswer::is_misconfigured));
        let word = if exit == Exit::USAGE { "configuration" } else { "unavailable" };
        Self::new(exit, word, message).of_lock(name)
    }

    /// The name is used for something else, which `found` is the word for: no retry helps.
    pub(crate) fn other_kind(name: &str, found: &str) -> Self {
        let message = match found {
            "plain" => format!(
                "lock {name:?} is in use as a plain or read-write lock; remove --owner, or use another name"
            ),
            "reentrant" => {
                format!("lock {name:?} is in use as a reentrant lock; add --owner ID, or use another name")
            }
            _ => format!(
                "lock {name:?} cannot be acquired: another program's key has this name on the nodes; use \
                 another name or --prefix"
            ),
        };
        Self::new(Exit::USAGE, "other_kind", message).of_lock(name)
    }

    pub(crate) fn acquire(error: &AcquireError, contended: Exit) -> Self {
        let message = error.to_string();
        match error {
            AcquireError::Contended { name, votes, retry_after, place, .. } => {
                let holder = place.as_ref().and_then(|place| place.holder.as_deref());
                let message =
                    contention(name, holder, *retry_after, place.as_ref().map_or(0, |place| place.waiters));
                let mut failure = Self::new(contended, "contended", message).of_lock(name).with_votes(votes);
                failure.about.retry_after = *retry_after;
                failure.about.holder = holder.map(str::to_owned);
                failure
            }
            AcquireError::Unavailable { name, votes, retry_after, .. } => {
                let mut failure = Self::unavailable("unavailable", message, votes).of_lock(name);
                failure.about.retry_after = *retry_after;
                failure
            }
            AcquireError::ClocksSetBack { name, votes, retry_after, .. } => {
                let failure = Self::new(Exit::UNAVAILABLE, "clocks_set_back", message);
                let mut failure = failure.of_lock(name).with_votes(votes);
                failure.about.retry_after = Some(*retry_after);
                failure
            }
            AcquireError::TooLate { name, votes, .. } => {
                Self::unavailable("too_late", message, votes).of_lock(name)
            }
            AcquireError::OtherKind { name, votes, found, .. } => {
                Self::other_kind(name, kind_word(*found)).with_votes(votes)
            }
            AcquireError::Circle { name, .. } => Self::new(contended, "deadlock", message).of_lock(name),
            AcquireError::InvalidName { name, .. } | AcquireError::InvalidOption { name, .. } => {
                Self::usage(message).of_lock(name)
            }
            AcquireError::NoRandomness { name, .. } | AcquireError::ShutDown { name, .. } => {
                Self::internal(message).of_lock(name)
            }
            _ => Self::internal(message),
        }
    }
}

impl Failure {
    /// The same about what was wanted, if that was not simply a lock: one of so many permits, whose
    /// slots are nobody's business, or a lock that is kept from others for a period, so that there
    /// is nothing to retry.
    pub(crate) fn about_wanted(mut self, wanted: &Wanted<'_>) -> Self {
        if !self.is_contention() {
            return self;
        }
        let name = wanted.name();
        if wanted.slots.is_some() {
            (self.about.holder, self.about.retry_after) = (None, None);
        }
        match wanted.slots {
            Some(1) => {
                self.message = format!("the only slot of {name:?} is taken; retry later or add --wait 1m");
            }
            Some(slots) => {
                self.message =
                    format!("all {slots} slots of {name:?} are taken; retry later or add --wait 1m");
            }
            None if !wanted.at_least.is_zero() => {
                let holder = self.about.holder.as_deref().map_or_else(|| "another client".to_owned(), plain);
                let left = self.about.retry_after.map_or_else(String::new, |left| {
                    format!(", free in {} unless it still runs then", duration(left))
                });
                self.message = format!("lock {name:?} is taken for this period by {holder}{left}");
            }
            None => {}
        }
        self.of_lock(&name)
    }
}

/// Who has it, for people who wonder whether to wait.
pub(crate) fn contention(name: &str, holder: Option<&str>, left: Option<Duration>, waiters: u64) -> String {
    let holder = holder.map_or_else(|| "another client".to_owned(), plain);
    let left = left.map_or_else(String::new, |left| format!(", free in {} unless renewed", duration(left)));
    let waiters = if waiters == 0 { String::new() } else { format!(", {waiters} in line") };
    format!("lock {name:?} is held by {holder}{left}{waiters}; retry later or add --wait 1m")
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        Self::acquire(&error, Exit::HELD)
    }
}

impl From<ExtendError> for Failure {
    fn from(error: ExtendError) -> Self {
        let message = error.to_string();
        match &error {
            ExtendError::Lost { name, votes, .. } | ExtendError::Refused { name, votes, .. } => {
                Self::new(Exit::NO, "not_held", message).of_lock(name).with_votes(votes)
            }
            ExtendError::Outdated { name, .. } => Self::new(Exit::NO, "outdated", message).of_lock(name),
            ExtendError::Expired { name, .. } => Self::new(Exit::NO, "not_held", message).of_lock(name),
            ExtendError::MaxHold { name, .. } | ExtendError::RenewalsMax { name, .. } => {
                Self::new(Exit::NO, "max_hold", message).of_lock(name)
            }
            ExtendError::Unavailable { name, votes, .. } => {
                Self::unavailable("unavailable", message, votes).of_lock(name)
            }
            ExtendError::InvalidName { name, .. } | ExtendError::InvalidOption { name, .. } => {
                Self::usage(message).of_lock(name)
            }
            ExtendError::ShutDown { name, .. } => Self::internal(message).of_lock(name),
            _ => Self::internal(message),
        }
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        let message = error.to_string();
        match &error {
            ReleaseError::NotHeld { name, votes, .. } => {
                Self::new(Exit::NO, "not_held", message).of_lock(name).with_votes(votes)
            }
            ReleaseError::Unavailable { name, votes, .. } => {
                Self::unavailable("unavailable", message, votes).of_lock(name)
            }
            ReleaseError::InvalidName { name, .. } | ReleaseError::InvalidOption { name, .. } => {
                Self::usage(message).of_lock(name)
            }
            ReleaseError::Foreign { name, .. } => Self::new(Exit::NO, "foreign", message).of_lock(name),
            ReleaseError::ShutDown { name, .. } => Self::internal(message).of_lock(name),
            _ => Self::internal(message),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Build(error) => error.into(),
            _ => Self::usage(error.to_string()),
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Thread(_) => Self::internal(error.to_string()),
            _ => Self::usage(error.to_string()),
        }
    }
}
