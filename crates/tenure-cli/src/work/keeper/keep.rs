//! What a keeper does: it listens, and if the pipe ends without a goodbye, whoever had the other
//! end was killed.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::group;
use super::super::supervise::{Cause, kill_lead};
use super::{ANSWER_LIMIT, BACK, EARLY, GOODBYE, LOCK, LOST, MAX_HOLD, STAND_BY, TAKE, TAKEN, UNTIL, resume};
use crate::backend::{Backend, Baton, Holding};
use crate::exit_code::Exit;
use crate::machine_clock::now;
use crate::output::Output;
use crate::settings::Settings;

/// How often the clock is looked at: timers stand still while the machine sleeps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a group may take to end if nobody knows for how long its lock lasts.
const END_LIMIT: Duration = Duration::from_secs(5);

type Pipe = BufReader<UnixStream>;

/// What is kept.
struct Kept {
    group: Pid,
    /// Until when the lock is valid if nobody says more, by [`now`].
    until: Option<Duration>,
    lock: Option<(Settings, Baton)>,
    /// Others may have it at once, though it was to be kept from them.
    early: bool,
}

/// Keeps until nothing is left to look after.
pub(in super::super) fn keep(group: &str) -> Exit {
    let Ok(group @ 2..) = group.parse() else { return Exit::USAGE };
    let mut kept = Kept { group: Pid::from_raw(group), until: None, lock: None, early: false };
    if kept.serve().is_none() {
        kept.end();
    }
    Exit::DONE
}

impl Kept {
    /// `None` if the pipe ended without a goodbye.
    fn serve(&mut self) -> Option<()> {
        let mut pipe = BufReader::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned().ok()?));
        loop {
            let order = self.next_order(&mut pipe)?;
            let (word, number) = order.split_once(' ').unwrap_or((&order, ""));
            match word {
                UNTIL => self.until = Some(Duration::from_nanos(number.parse().ok()?)),
                LOCK | EARLY => {
                    self.lock = read_lock(&mut pipe, number.parse().ok()?)?;
                    self.early = word == EARLY;
                }
                STAND_BY => self.until = None,
                TAKE => {
                    self.until = None;
                    pipe = self.take(pipe, Duration::from_nanos(number.parse().ok()?))?;
                }
                _ => return (order == GOODBYE).then_some(()),
            }
        }
    }

    /// The next order. If the time that we know of is over, whoever should have told us more stands
    /// still, and the command must not go on alone.
    fn next_order(&mut self, pipe: &mut Pipe) -> Option<String> {
        let mut text = String::new();
        loop {
            let left = self.until.map(|until| until.saturating_sub(now()));
            let limit = left.map(|left| left.clamp(Duration::from_millis(1), LOOK_EVERY));
            let _ = pipe.get_ref().set_read_timeout(limit);
            match pipe.read_line(&mut text) {
                Ok(_) if text.ends_with('\n') => {
                    let _ = pipe.get_ref().set_read_timeout(None);
                    return Some(text.trim_end().to_owned());
                }
                Ok(_) => return None,
                // Only when nothing more was said: we may have stood still ourselves.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.until.is_some_and(|until| now() >= until) {
                        self.kill();
                        self.until = None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Keeps the lock until it is wanted back.
    fn take(&mut self, mut pipe: Pipe, until: Duration) -> Option<Pipe> {
        // The next order is listened to beside the lock.
        let (answer, next) = oneshot::channel();
        let listening = std::thread::spawn(move || {
            let order = read(&mut pipe);
            let _ = answer.send(order.as_deref() == Some(BACK));
            pipe
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let kept = runtime.block_on(self.keep_lock(until.saturating_sub(now()), next))?;
        let answer = match kept {
            Ok(baton) => baton.to_string(),
            Err(Cause::Taken) => TAKEN.to_owned(),
            Err(Cause::MaxHold) => MAX_HOLD.to_owned(),
            Err(_) => LOST.to_owned(),
        };
        Output::of_helper().raw(format!("{answer}\n").as_bytes()).ok()?;
        listening.join().ok()
    }

    /// The lock, or why it was lost, when it is wanted back; `None` if whoever could want it is
    /// gone.
    async fn keep_lock(
        &mut self,
        valid_for: Duration,
        mut wanted_back: oneshot::Receiver<bool>,
    ) -> Option<Result<Baton, Cause>> {
        let (_backend, holding) = match self.resume(valid_for).await {
            Ok(resumed) => resumed,
            Err(cause) => {
                self.kill();
                return wanted_back.await.ok()?.then_some(Err(cause));
            }
        };
        tokio::select! {
            biased;
            () = holding.lost() => {
                self.kill();
                wanted_back.await.ok()?.then(|| Err(Cause::of(&holding)))
            }
            wanted = &mut wanted_back => {
                let baton = holding.hand_over();
                if let Some((_, last)) = &mut self.lock {
                    last.clone_from(&baton);
                }
                (wanted == Ok(true)).then_some(Ok(baton))
            }
        }
    }

    async fn resume(&self, valid_for: Duration) -> Result<(Backend, Holding), Cause> {
        let (settings, baton) = self.lock.as_ref().ok_or(Cause::Lost)?;
        let backend = Backend::connect(settings).map_err(|_| Cause::Lost)?;
        let limit = valid_for.saturating_sub(kill_lead(settings.ttl.value));
        let holding = resume(&backend, baton, limit).await?;
        Ok((backend, holding))
    }

    fn kill(&self) {
        let _ = killpg(self.group, Signal::SIGKILL);
    }

    /// Ends the group, and releases its lock when nothing of it lives. A term later the lock is
    /// free by itself.
    fn end(self) {
        let limit = self.lock.as_ref().map_or(END_LIMIT, |(settings, _)| settings.ttl.value);
        let is_gone = group::end(self.group, limit);
        let Some((settings, baton)) = self.lock.filter(|_| is_gone) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(backend) = Backend::connect(&settings) else { return };
            let _ = timeout(ANSWER_LIMIT, backend.ready()).await;
            let _ = timeout(ANSWER_LIMIT, backend.release(&baton, self.early)).await;
            let _ = backend.shutdown(Some(ANSWER_LIMIT)).await;
        });
    }
}

/// The lock that is spoken of, and how to reach it. `Some(None)` if we do not understand that: the
/// group is looked after all the same.
#[expect(clippy::option_option, reason = "the pipe may also be gone")]
fn read_lock(pipe: &mut Pipe, count: usize) -> Option<Option<(Settings, Baton)>> {
    let baton = read(pipe)?;
    let settings = (0..count).map(|_| read(pipe).map(|line| line + "\n")).collect::<Option<String>>()?;
    Some(Settings::from_text(&settings).zip(baton.parse().ok()))
}

fn read(pipe: &mut impl BufRead) -> Option<String> {
    let mut text = String::new();
    // Nobody says anything that long.
    let read = pipe.take(1 << 20).read_line(&mut text).ok()?;
    (read > 0 && text.ends_with('\n')).then(|| text.trim_end().to_owned())
}
