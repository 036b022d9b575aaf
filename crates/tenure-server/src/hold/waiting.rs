//! Until the lock is there: the place in line.

use std::time::{Duration, Instant};

use tenure::{Circle, InLine, Place};
use tokio::time::{sleep, timeout};

use super::line::{Event, Line};
use super::{HEARTBEAT, Hold, Stage};
use crate::calls::acquire::Acquiring;
use crate::form;
use crate::grant::Unheard;
use crate::lease::gather;
use crate::problem::Problem;
use crate::room::Seat;
use crate::turns::Turn;

/// Who gets the lock, or a refusal, within this time is told so at once; others that they wait.
const SOON: Duration = Duration::from_millis(100);

/// How often the place in line is looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Waiting {
    name: String,
    acquire: Acquiring,
    in_line: InLine,
    /// What was told last, and when.
    told: Option<(Option<Place>, Instant)>,
    /// The deadlock that was told last.
    deadlock: Option<Circle>,
    _room: Seat,
}

impl Waiting {
    pub(crate) fn new(name: String, (acquire, in_line): (Acquiring, InLine), room: Seat, turn: Turn) -> Self {
        let acquire = Box::pin(turn.during(acquire, in_line.clone()));
        Self { name, acquire, in_line, told: None, deadlock: None, _room: room }
    }

    /// Whether there is something to wait for.
    pub(crate) async fn begin(mut self) -> Result<Stage, Problem> {
        match timeout(SOON, &mut self.acquire).await {
            Ok(outcome) => {
                let unheard = Unheard::new(outcome?);
                gather(unheard.guard()).await;
                Ok(Stage::Granted(unheard))
            }
            Err(_) => Ok(Stage::Waiting(Box::new(self))),
        }
    }

    /// The next line.
    pub(super) async fn next(mut self: Box<Self>, hold: &Hold) -> (Line, Stage) {
        loop {
            let pause = if self.told.is_none() { Duration::ZERO } else { LOOK };
            tokio::select! {
                biased;
                outcome = &mut self.acquire => return match outcome {
                    Ok(guard) => {
                        let unheard = Unheard::new(guard);
                        gather(unheard.guard()).await;
                        hold.give(unheard)
                    }
                    Err(error) => (Line::refusal(&self.name, &error.into()), Stage::Over),
                },
                () = hold.service.drained() => {
                    return (Line::of(Event::Draining, &self.name), Stage::Over);
                }
                () = sleep(pause) => {}
            }
            let deadlock = self.in_line.deadlock();
            if deadlock != self.deadlock {
                self.deadlock.clone_from(&deadlock);
                if let Some(seen) = deadlock.filter(|seen| seen.names().all(|name| hold.caller.knows(name))) {
                    let deadlock = Some(form::deadlock(&seen));
                    return (
                        Line { deadlock, ..Line::of(Event::Deadlock, &self.name) },
                        Stage::Waiting(self),
                    );
                }
            }
            let place = self.in_line.place();
            let is_due = |(told, at): &(_, Instant)| *told != place || at.elapsed() >= HEARTBEAT;
            if self.told.as_ref().is_none_or(is_due) {
                let line = self.line(place.as_ref());
                self.told = Some((place, Instant::now()));
                return (line, Stage::Waiting(self));
            }
        }
    }

    fn line(&self, place: Option<&Place>) -> Line {
        Line {
            ahead: place.map(|place| place.ahead),
            waiters: place.map(|place| place.waiters),
            label: place.and_then(|place| place.holder.as_deref().map(str::to_owned)),
            ..Line::of(Event::Waiting, &self.name)
        }
    }
}
