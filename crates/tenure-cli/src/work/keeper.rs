//! Processes of ours that outlive us: the keeper, and a spare one.
//!
//! A keeper ends what is left of the command when we are killed, and then releases the lock: the
//! kernel's signal to the command does not reach the others of its group. It ends the command when
//! we stand still while it runs (`kill -STOP`, a debugger), before its lock is over: we tell it
//! until when that is. And it keeps the lock while a person has stopped us together with the
//! command: a stopped process cannot renew, so the lock is handed over and back.
//!
//! Nobody can stop it but by SIGKILL, and then it is replaced. There are two once the command has
//! run for a moment, so that whoever kills the keeper and then us at once leaves one. `keep` is
//! what they do.

mod keep;

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::unistd::Pid;
use tenure::Risk;
use tokio::time::{Instant, sleep, timeout_at};

pub(super) use self::keep::keep;
use super::child::{Change, own_program};
use super::supervise::Cause;
use crate::backend::{Backend, Baton, Holding, NotResumed};
use crate::settings::Settings;

/// What we call ourselves with to keep: both do the same.
pub(super) const NAMES: [&str; 2] = ["__keep", "__spare"];

/// What is said through the pipe: all is over in good order; this is the lock; this is the lock,
/// and others may have it at once though it was to be kept from them; it is valid until then;
/// another keeper has it now; keep it; give it back.
const GOODBYE: &str = "goodbye";
const LOCK: &str = "lock";
const EARLY: &str = "lock-early";
const UNTIL: &str = "until";
const STAND_BY: &str = "stand-by";
const TAKE: &str = "take";
const BACK: &str = "back";

/// What is answered if the lock is lost: others have it; it was held for too long; any other
/// reason.
const TAKEN: &str = "taken";
const MAX_HOLD: &str = "max-hold";
const LOST: &str = "lost";

/// How long the keeper may take to answer: many round trips.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// A stopped keeper must not hold us up.
const TELL_LIMIT: Duration = Duration::from_millis(20);

/// When the spare one follows: most commands that are over by then need no second one, and pay for
/// none.
const SPARE_AFTER: Duration = Duration::from_millis(10);

/// How many are started within how long, at most: one that cannot live on this machine is not
/// started for ever.
const STARTS_MAX: u32 = 20;
const STARTS_WITHIN: Duration = Duration::from_secs(1);

/// The pause before a lock is asked for again that could not be resumed.
const PAUSE: Duration = Duration::from_millis(50);

/// Our ends of the pipes to the keepers.
#[derive(Debug)]
pub(super) struct Keepers {
    group: Pid,
    /// The lock and how to reach it, as an order.
    lock: String,
    /// Whether others may have it at once if the command is killed.
    retries: bool,
    keepers: [Option<Keeper>; 2],
    /// Which of them was given the lock.
    trusted: Option<usize>,
    begun: Instant,
    starts: u32,
    counted_from: Instant,
}

/// Our end of one pipe.
#[derive(Debug)]
struct Keeper {
    process: Pid,
    pipe: UnixStream,
    /// Until when the lock is valid, as it was told last, by the machine's clock.
    told: Duration,
}

impl Keepers {
    /// Starts the first one for this process group and its lock.
    /// `retries`: if the command is killed with us, others may have the lock at once, though it was
    /// to be kept from them.
    pub(super) fn start(group: Pid, settings: &Settings, baton: &Baton, retries: bool) -> io::Result<Self> {
        let lock = lock_order(settings, baton, retries);
        let keepers = [Some(Keeper::start(NAMES[0], group, &lock, None)?), None];
        let now = Instant::now();
        let trusted = None;
        Ok(Self { group, lock, retries, keepers, trusted, begun: now, starts: 1, counted_from: now })
    }

    /// Lets them go: nothing is left to look after.
    pub(super) fn dismiss(self) {
        for mut keeper in self.keepers.into_iter().flatten() {
            let _ = writeln!(keeper.pipe, "{GOODBYE}");
        }
    }

    /// Tells them until when the command may live without a further word of ours, by [`now`]. Those
    /// that are gone are replaced before; `false` if there is none and none can be started.
    pub(super) fn tell(&mut self, until: Duration) -> bool {
        let wanted = if self.spare_in().is_zero() { NAMES.len() } else { 1 };
        for (index, name) in NAMES.into_iter().enumerate() {
            if index < wanted && self.keepers[index].is_none() && self.may_start() {
                self.keepers[index] = Keeper::start(name, self.group, &self.lock, Some(until)).ok();
            }
            self.order(index, |keeper| keeper.tell(until));
        }
        self.keepers.iter().any(Option::is_some)
    }

    /// In how long they want to be told again at the latest, to start the spare one.
    pub(super) fn wants_word_in(&self) -> Option<Duration> {
        Some(self.spare_in()).filter(|wait| !wait.is_zero())
    }

    fn spare_in(&self) -> Duration {
        SPARE_AFTER.saturating_sub(self.begun.elapsed())
    }

    /// Hears what became of a child of ours, which may be one of them.
    pub(super) fn hear(&mut self, process: Pid, change: Change) {
        for keeper in &mut self.keepers {
            if keeper.as_ref().is_some_and(|keeper| keeper.process == process) {
                match change {
                    Change::Ended => *keeper = None,
                    // A stopped process looks after nobody.
                    Change::Stopped(_) => {
                        let _ = kill(process, Signal::SIGCONT);
                    }
                }
            }
        }
    }

    /// Lets one of them keep this lock, which is valid until then by [`now`].
    pub(super) fn take(&mut self, settings: &Settings, baton: &Baton, until: Duration) {
        self.lock = lock_order(settings, baton, self.retries);
        let take = format!("{}{TAKE} {}\n", self.lock, until.as_nanos());
        self.trusted = None;
        for index in 0..self.keepers.len() {
            let order = if self.trusted.is_none() { take.clone() } else { format!("{STAND_BY}\n") };
            if self.order(index, |keeper| keeper.change(&order)) && self.trusted.is_none() {
                self.trusted = Some(index);
            }
        }
    }

    /// Takes the lock back, or hears why it was lost meanwhile.
    ///
    /// # Errors
    /// If nobody has it.
    pub(super) fn back(&mut self) -> io::Result<Result<Baton, Cause>> {
        let mut answer = Err(io::ErrorKind::NotConnected.into());
        if let Some(index) = self.trusted.take() {
            self.order(index, |keeper| {
                answer = keeper.back();
                // What it would say later is about another lease.
                answer.as_ref().map(|_| ()).map_err(|error| error.kind().into())
            });
        }
        answer
    }

    /// Says something to one of them, if it is there. One that does not take it in is of no use any
    /// more.
    fn order(&mut self, index: usize, say: impl FnOnce(&mut Keeper) -> io::Result<()>) -> bool {
        let Some(keeper) = &mut self.keepers[index] else { return false };
        let said = say(keeper).is_ok();
        if !said {
            let _ = kill(keeper.process, Signal::SIGKILL);
            self.keepers[index] = None;
        }
        said
    }

    fn may_start(&mut self) -> bool {
        if self.counted_from.elapsed() > STARTS_WITHIN {
            (self.starts, self.counted_from) = (0, Instant::now());
        }
        self.starts += 1;
        self.starts <= STARTS_MAX
    }
}

impl Keeper {
    /// Starts one for this lock, and tells it until when that is valid, if somebody knows. All of
    /// it is in the pipe before there is a process: whoever stops us just then leaves one that
    /// knows what to do.
    fn start(name: &str, group: Pid, lock: &str, until: Option<Duration>) -> io::Result<Self> {
        let (mut pipe, theirs) = UnixStream::pair()?;
        pipe.set_read_timeout(Some(ANSWER_LIMIT))?;
        pipe.set_write_timeout(Some(TELL_LIMIT))?;
        pipe.write_all(lock.as_bytes())?;
        if let Some(until) = until {
            pipe.write_all(until_order(until).as_bytes())?;
        }
        let mut command = Command::new(own_program()?);
        command.arg0("tenure").args([name, &group.to_string()]).process_group(0);
        let answers = theirs.try_clone()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(OwnedFd::from(answers)));
        command.stderr(Stdio::null());
        // It inherits what is blocked, so that it is deaf from its first moment on. It starts
        // nobody who could inherit it.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = command.spawn();
        before.thread_set_mask()?;
        let process = Pid::from_raw(i32::try_from(started?.id()).map_err(io::Error::other)?);
        Ok(Self { process, pipe, told: until.unwrap_or_default() })
    }

    fn tell(&mut self, until: Duration) -> io::Result<()> {
        // It moves when the lock is renewed, and not from one look at the clock to the next.
        if until > self.told + Duration::from_millis(1) {
            self.pipe.write_all(until_order(until).as_bytes())?;
            self.told = until;
        }
        Ok(())
    }

    /// An order after which it does not know any more until when the lock is valid.
    fn change(&mut self, order: &str) -> io::Result<()> {
        self.pipe.write_all(order.as_bytes())?;
        self.told = Duration::ZERO;
        Ok(())
    }

    fn back(&mut self) -> io::Result<Result<Baton, Cause>> {
        writeln!(self.pipe, "{BACK}")?;
        let mut answer = String::new();
        BufReader::new(&self.pipe).read_line(&mut answer)?;
        match answer.trim() {
            "" => Err(io::ErrorKind::UnexpectedEof.into()),
            TAKEN => Ok(Err(Cause::Taken)),
            MAX_HOLD => Ok(Err(Cause::MaxHold)),
            answer => Ok(answer.parse().map_err(|_| Cause::Lost)),
        }
    }
}

fn until_order(until: Duration) -> String {
    format!("{UNTIL} {}\n", until.as_nanos())
}

fn lock_order(settings: &Settings, baton: &Baton, retries: bool) -> String {
    let (settings, how) = (settings.to_text(), if retries { EARLY } else { LOCK });
    format!("{how} {}\n{baton}\n{settings}", settings.lines().count())
}

/// Goes on with a lock, trying again while nobody answers and it may still be held.
///
/// # Errors
/// Why it is lost.
pub(super) async fn resume(backend: &Backend, baton: &Baton, limit: Duration) -> Result<Holding, Cause> {
    let until = Instant::now() + limit;
    let _ = timeout_at(until, backend.ready()).await;
    loop {
        match timeout_at(until, backend.resume(baton)).await.map_err(|_| Cause::Lost)? {
            Ok(holding) => return Ok(holding),
            Err(NotResumed::NotNow) if Instant::now() < until => sleep(PAUSE).await,
            Err(NotResumed::Lost(Some(Risk::Taken))) => return Err(Cause::Taken),
            Err(NotResumed::Lost(Some(Risk::Limit))) => return Err(Cause::MaxHold),
            Err(_) => return Err(Cause::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_could_not_be_said_is_said_again() {
        let (pipe, mut theirs) = UnixStream::pair().unwrap();
        pipe.set_nonblocking(true).unwrap();
        let mut keeper = Keeper { process: Pid::this(), pipe, told: Duration::ZERO };
        while keeper.pipe.write(&[0; 4096]).is_ok() {}
        let until = Duration::from_nanos(77_000_000);
        assert!(keeper.tell(until).is_err(), "nobody reads");
        theirs.set_nonblocking(true).unwrap();
        while matches!(theirs.read(&mut [0; 4096]), Ok(1..)) {}
        keeper.tell(until).unwrap();
        let mut said = [0; 64];
        let length = theirs.read(&mut said).unwrap();
        assert_eq!(&said[..length], b"until 77000000\n");
        keeper.tell(until).unwrap();
        assert!(theirs.read(&mut said).is_err(), "once is enough");
    }
}
