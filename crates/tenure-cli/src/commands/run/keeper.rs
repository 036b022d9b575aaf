//! A second process of ours that outlives us: the keeper.
//!
//! It ends what is left of the command when we are killed: the kernel's signal to the command does not reach the others
//! of its group. It ends the command when we stand still while it runs (`kill -STOP`, a debugger), before its lock is
//! over: we tell the keeper until when that is. And it keeps the lock while a person has stopped us together with the
//! command: a process that stands still can renew nothing, so the lock is handed over and back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tenure::{ExtendError, Guard, Handover, Locks};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::child::own_program;
use super::supervise::kill_lead;
use crate::exit_code::Exit;
use crate::settings::Settings;

/// What we call ourselves with to keep.
pub(super) const KEEP: &str = "__keep";

/// What is said on the line: all is over in good order; the lock is valid until then; keep this lock; give it back.
const GOODBYE: &str = "goodbye";
const UNTIL: &str = "until ";
const TAKE: &str = "take";
const BACK: &str = "back";

/// How long the keeper may take to answer: many round trips.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// A keeper that stands still may not hold us up.
const TELL_LIMIT: Duration = Duration::from_millis(20);

/// How often the clock is looked at: timers stand still while the machine sleeps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The pause before a lock is asked for again that could not be resumed.
const PAUSE: Duration = Duration::from_millis(50);

/// Our end of the line to the keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    line: UnixStream,
    /// Until when the lock is valid, as it was told last, by [`since_boot`].
    told: Duration,
}

impl Keeper {
    /// Starts it for this process group.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_read_timeout(Some(ANSWER_LIMIT))?;
        line.set_write_timeout(Some(TELL_LIMIT))?;
        let mut keeper = Command::new(own_program()?);
        keeper.arg0("tenure").args([KEEP, &group.to_string()]).process_group(0);
        let answers = theirs.try_clone()?;
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(OwnedFd::from(answers)));
        keeper.stderr(Stdio::null()).spawn()?;
        Ok(Self { line, told: Duration::ZERO })
    }

    /// Lets it go: nothing is left to look after.
    pub(super) fn dismiss(mut self) {
        let _ = writeln!(self.line, "{GOODBYE}");
    }

    /// Tells it how long the command may live without a further word of ours. `now` was read before `valid_for` was.
    pub(super) fn tell(&mut self, now: Duration, valid_for: Duration) {
        let until = now + valid_for;
        // It moves when the lock is renewed, and not from one look at the clock to the next.
        if until > self.told + Duration::from_millis(1) {
            self.told = until;
            let _ = self.line.write_all(format!("{UNTIL}{}\n", until.as_nanos()).as_bytes());
        }
    }

    /// Lets it keep this lock, which is valid until then by [`since_boot`].
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        handover: &Handover,
        until: Duration,
    ) -> io::Result<()> {
        self.forget_late_answers()?;
        let lines = settings.to_lines();
        let count = lines.lines().count();
        self.told = Duration::ZERO;
        let order = format!("{TAKE} {count} {}\n{handover}\n{lines}", until.as_nanos());
        self.line.write_all(order.as_bytes())
    }

    /// What it said when nobody waited for it any more says nothing about another lease.
    fn forget_late_answers(&mut self) -> io::Result<()> {
        self.line.set_nonblocking(true)?;
        while matches!(self.line.read(&mut [0; 4096]), Ok(1..)) {}
        self.line.set_nonblocking(false)
    }

    /// Takes the lock back. `None` if it was lost meanwhile.
    pub(super) fn back(&mut self) -> io::Result<Option<Handover>> {
        writeln!(self.line, "{BACK}")?;
        let mut answer = String::new();
        BufReader::new(&self.line).read_line(&mut answer)?;
        Ok(answer.trim().parse().ok())
    }
}

/// Goes on with a lock, trying again while nodes do not answer and it may still be held.
pub(super) async fn resume(locks: &Locks, handover: &Handover, limit: Duration) -> Option<Guard> {
    let until = Instant::now() + limit;
    let _ = timeout_at(until, locks.ready()).await;
    loop {
        match timeout_at(until, locks.resume(handover)).await.ok()? {
            Ok(guard) => return Some(guard),
            Err(ExtendError::Unavailable { .. } | ExtendError::Refused { .. }) if Instant::now() < until => {
                sleep(PAUSE).await;
            }
            Err(_) => return None,
        }
    }
}

/// A clock that all processes share and that goes on while the machine sleeps.
pub(super) fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// What the keeper does: if the line ends without a goodbye, whoever had the other end was killed.
pub(super) fn keep(group: &str) -> Exit {
    let Ok(group @ 2..) = group.parse() else { return Exit::USAGE };
    let group = Pid::from_raw(group);
    if serve(group).is_none() {
        let _ = killpg(group, Signal::SIGKILL);
    }
    Exit::DONE
}

/// `None` if the line ended without a goodbye.
fn serve(group: Pid) -> Option<()> {
    let mut line = BufReader::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned().ok()?));
    loop {
        let order = next_order(&mut line, group)?;
        let words: Vec<&str> = order.split(' ').collect();
        let [TAKE, count, until] = words[..] else { return (order == GOODBYE).then_some(()) };
        let (count, until): (usize, u64) = (count.parse().ok()?, until.parse().ok()?);
        let handover: Handover = read(&mut line)?.parse().ok()?;
        let lines =
            (0..count).map(|_| read(&mut line).map(|line| line + "\n")).collect::<Option<String>>()?;
        let settings = Settings::from_lines(&lines)?;
        // The next order is listened to beside the lock.
        let (told, next) = oneshot::channel();
        let listening = std::thread::spawn(move || {
            let order = read(&mut line);
            let _ = told.send(order.as_deref() == Some(BACK));
            line
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let valid_for = Duration::from_nanos(until).saturating_sub(since_boot());
        let kept = runtime.block_on(keep_lock(&settings, &handover, valid_for, group, next))?;
        let answer = kept.map_or_else(|| "lost".to_owned(), |handover| handover.to_string());
        crate::output::Output::of_helper().raw(format!("{answer}\n").as_bytes()).ok()?;
        line = listening.join().ok()?;
    }
}

/// The next order that is not about how long the lock is valid. If that time is nearly over, whoever should have told us
/// more stands still, and the command must not go on alone.
fn next_order(line: &mut BufReader<UnixStream>, group: Pid) -> Option<String> {
    let (mut until, mut text) = (None::<Duration>, String::new());
    loop {
        let left = until.map(|until| until.saturating_sub(since_boot()));
        let limit = left.map(|left| left.clamp(Duration::from_millis(1), LOOK_EVERY));
        let _ = line.get_ref().set_read_timeout(limit);
        match line.read_line(&mut text) {
            Ok(_) if text.ends_with('\n') => {
                let order = std::mem::take(&mut text).trim_end().to_owned();
                let Some(told) = order.strip_prefix(UNTIL) else {
                    let _ = line.get_ref().set_read_timeout(None);
                    return Some(order);
                };
                until = Some(Duration::from_nanos(told.parse().ok()?));
            }
            Ok(_) => return None,
            // Only when nothing more was said: we may have stood still ourselves.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if until.is_some_and(|until| since_boot() >= until) {
                    let _ = killpg(group, Signal::SIGKILL);
                    until = None;
                }
            }
            Err(_) => return None,
        }
    }
}

/// Keeps the lock until it is wanted back (`Some(None)` if it was lost by then), or whoever could want it is gone.
async fn keep_lock(
    settings: &Settings,
    handover: &Handover,
    valid_for: Duration,
    group: Pid,
    wanted_back: oneshot::Receiver<bool>,
) -> Option<Option<Handover>> {
    let lead = kill_lead(settings.ttl.value);
    let guard = match settings.connect(|_| ()) {
        Ok(locks) => {
            resume(&locks, handover, valid_for.saturating_sub(lead)).await.map(|guard| (locks, guard))
        }
        Err(_) => None,
    };
    let Some((locks, guard)) = guard else {
        let _ = killpg(group, Signal::SIGKILL);
        return wanted_back.await.ok()?.then_some(None);
    };
    let mut wanted_back = wanted_back;
    tokio::select! {
        biased;
        () = guard.lost() => {
            let _ = killpg(group, Signal::SIGKILL);
            wanted_back.await.ok()?.then_some(None)
        }
        wanted = &mut wanted_back => {
            if wanted == Ok(true) {
                return Some(Some(guard.hand_over()));
            }
            let _ = killpg(group, Signal::SIGKILL);
            let _ = guard.release().await;
            let _ = locks.shutdown_within(ANSWER_LIMIT).await;
            None
        }
    }
}

fn read(line: &mut impl BufRead) -> Option<String> {
    let mut text = String::new();
    // Nobody says anything that long.
    let read = line.take(1 << 20).read_line(&mut text).ok()?;
    (read > 0 && text.ends_with('\n')).then(|| text.trim_end().to_owned())
}
