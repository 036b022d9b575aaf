//! A second process of ours that outlives us: the keeper.
//!
//! It ends what is left of the command when we are killed: the kernel's signal to the command does not reach the others
//! of its group. It ends all of it when the lock is about to end and we have not done so: somebody may have stopped us,
//! and not the command. And it keeps the lock while a person has stopped us together with the command: a process that
//! stands still can renew nothing, so the lock is handed over and back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tenure::{ExtendError, Guard, Handover, Locks};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::alarm::{self, Alarm};
use super::child::own_program;
use super::supervise::kill_lead;
use crate::exit_code::Exit;
use crate::settings::Settings;

/// What we call ourselves with to keep.
pub(super) const KEEP: &str = "__keep";

/// What is said on the line: all is over in good order; the lock ends then; keep this lock; give it back.
const GOODBYE: &str = "goodbye";
const UNTIL: &str = "until";
const TAKE: &str = "take";
const BACK: &str = "back";

/// How long the keeper may take to answer: many round trips.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// How long the line may be full, which it never is while the keeper runs.
const WRITE_LIMIT: Duration = Duration::from_millis(10);

/// Readings of two clocks differ a little; a lock that was renewed ends much later.
const TOLD_STEP: Duration = Duration::from_millis(2);

/// The pause before a lock is asked for again that could not be resumed.
const PAUSE: Duration = Duration::from_millis(50);

/// Our end of the line to the keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    line: UnixStream,
    /// What it was told last.
    until: Duration,
}

impl Keeper {
    /// Starts it for this process group.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        line.set_read_timeout(Some(ANSWER_LIMIT))?;
        // One that stands still must not hold us up.
        line.set_write_timeout(Some(WRITE_LIMIT))?;
        let mut keeper = Command::new(own_program()?);
        keeper.arg0("tenure").args([KEEP, &group.to_string()]).process_group(0);
        let answers = theirs.try_clone()?;
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(OwnedFd::from(answers)));
        keeper.stderr(Stdio::null()).spawn()?;
        Ok(Self { line, until: Duration::ZERO })
    }

    /// Tells it how long the lock is valid, whenever that has changed. It stops the command `lead` before that.
    pub(super) fn tell(&mut self, valid_for: impl FnOnce() -> Duration, lead: Duration) {
        // The clock first: what passes between the two makes it earlier.
        let Some(now) = alarm::now() else { return };
        let until = (now + valid_for()).saturating_sub(lead);
        if until.abs_diff(self.until) > TOLD_STEP {
            self.until = until;
            let _ = writeln!(self.line, "{UNTIL} {}", until.as_nanos());
        }
    }

    /// Lets it go: nothing is left to look after.
    pub(super) fn dismiss(mut self) {
        let _ = writeln!(self.line, "{GOODBYE}");
    }

    /// Lets it keep this lock, which is valid for so long.
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        handover: &Handover,
        valid_for: Duration,
    ) -> io::Result<()> {
        let lines = settings.to_lines();
        let count = lines.lines().count();
        write!(self.line, "{TAKE} {count} {}\n{handover}\n{lines}", valid_for.as_millis())
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
    let _ = timeout(limit, locks.ready()).await;
    loop {
        match locks.resume(handover).await {
            Ok(guard) => return Some(guard),
            Err(ExtendError::Unavailable { .. } | ExtendError::Refused { .. }) if Instant::now() < until => {
                sleep(PAUSE).await;
            }
            Err(_) => return None,
        }
    }
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
    let mut line = BufReader::new(io::stdin());
    let alarm = Alarm::new().ok();
    loop {
        if let Some(alarm) = &alarm
            && line.buffer().is_empty()
            && alarm.rings_before(io::stdin())
        {
            let _ = killpg(group, Signal::SIGKILL);
            continue;
        }
        let order = read(&mut line)?;
        let words: Vec<&str> = order.split(' ').collect();
        let (count, valid_for) = match words[..] {
            [UNTIL, at] => {
                let at = at.parse().ok().map(Duration::from_nanos)?;
                alarm.iter().for_each(|alarm| alarm.set(at));
                continue;
            }
            [TAKE, count, valid_for] => (count, valid_for),
            _ => return (order == GOODBYE).then_some(()),
        };
        alarm.iter().for_each(Alarm::stop);
        let (count, valid_for): (usize, u64) = (count.parse().ok()?, valid_for.parse().ok()?);
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
        let valid_for = Duration::from_millis(valid_for);
        let kept = runtime.block_on(keep_lock(&settings, &handover, valid_for, group, next))?;
        let answer = kept.map_or_else(|| "lost".to_owned(), |handover| handover.to_string());
        crate::output::Output::of_helper().raw(format!("{answer}\n").as_bytes());
        line = listening.join().ok()?;
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
