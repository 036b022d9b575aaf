//! While the client has the lock: every line says until when it may count on it.

use std::time::{Duration, Instant};

use tenure::{Guard, GuardChanges, HoldState};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::line::{Event, Line, Reason};
use super::{HEARTBEAT, Hold, OnDisconnect, Stage};
use crate::grant::Kept;
use crate::lease::{Told, lease_told};

/// A client whose lock is released with its connection is told no longer validities than this,
const BRIEF: Duration = Duration::from_secs(3);

/// and so often.
const BRIEF_BEAT: Duration = Duration::from_secs(1);

/// When the clocks of client and instance may be a fifth of the ttl apart, the client has to ask
/// again, which brings them together.
const APART_PART: u32 = 5;

pub(crate) struct Held {
    guard: Kept,
    changes: GuardChanges,
    received: Instant,
    /// If the lock is released with the connection: whoever still has to do so listens here.
    partings: Option<watch::Receiver<()>>,
    /// When the last line was given, from the receipt of the request on.
    told_at: Duration,
    /// When the client does not count on the lock any more, whatever it was told.
    told_until: Duration,
}

impl Held {
    /// The lock is the client's, with this line.
    pub(super) fn begin(guard: Guard, hold: &Hold) -> (Line, Stage) {
        let partings = match hold.on_disconnect {
            OnDisconnect::Keep => None,
            OnDisconnect::Release => Some(hold.service.partings.subscribe()),
        };
        let (changes, received) = (guard.changes(), hold.received);
        let (told_at, told_until) = Default::default();
        let guard = Kept::new(guard);
        let mut held = Box::new(Self { guard, changes, received, partings, told_at, told_until });
        (held.line(Event::Acquired, hold), Stage::Held(held))
    }

    /// The next line.
    pub(super) async fn next(mut self: Box<Self>, hold: &Hold) -> (Line, Stage) {
        loop {
            let moment = self.received + self.next_look();
            let news = tokio::select! {
                biased;
                () = hold.service.drained() => return (self.line(Event::Draining, hold), Stage::Over),
                alive = self.changes.next() => if alive { true } else { return (self.lost(hold), Stage::Over) },
                () = sleep_until(moment.into()) => false,
            };
            let (elapsed, state) = (self.received.elapsed(), self.guard().state());
            if state == HoldState::Lost || elapsed >= self.lost_at() {
                return (self.lost(hold), Stage::Over);
            }
            if elapsed >= self.age_max() {
                return (self.line(Event::Draining, hold), Stage::Over);
            }
            // Nobody renews for a caller whose time is over; what it was told stands.
            if let Err(problem) = hold.caller.is_still(&hold.service.callers) {
                return (Line::refusal(self.guard().name(), &problem), Stage::Over);
            }
            if news || elapsed >= self.told_at + self.beat() {
                let event = if state == HoldState::AtRisk { Event::AtRisk } else { Event::Renewed };
                return (self.line(event, hold), Stage::Held(self));
            }
        }
    }

    fn guard(&self) -> &Guard {
        self.guard.guard()
    }

    /// When there is something to say or to look at, if nothing happens before.
    fn next_look(&self) -> Duration {
        (self.told_at + self.beat()).min(self.lost_at()).min(self.age_max())
    }

    const fn beat(&self) -> Duration {
        if self.partings.is_some() { BRIEF_BEAT } else { HEARTBEAT }
    }

    /// The lock counts as lost a tenth of its ttl before the client must stop, so that the client
    /// hears of it in time: the way there is longer than inside a program.
    fn lost_at(&self) -> Duration {
        let ttl = self.guard().ttl();
        let lead = (ttl / 10).max(Duration::from_millis(100)).min(ttl / 4);
        Told::of(self.guard(), self.received).end().saturating_sub(lead)
    }

    fn age_max(&self) -> Duration {
        Told::apart_after(self.guard().ttl() / APART_PART)
    }

    /// Tells that the lock is the client's, and until when.
    fn line(&mut self, event: Event, hold: &Hold) -> Line {
        self.told_at = self.received.elapsed();
        let whole = Told::of(self.guard(), self.received);
        let brief = self.partings.is_some();
        let told = if brief { whole.until(self.told_at + BRIEF) } else { whole };
        self.told_until = self.told_until.max(told.over());
        let lease = lease_told(self.guard(), told, &hold.service.keys);
        let lease = if brief { lease.briefly(whole.end().saturating_sub(told.end())) } else { lease };
        let reason = (event == Event::AtRisk).then(|| Reason::of(self.guard()));
        Line { lease: Some(lease), reason, ..Line::of(event, self.guard().name()) }
    }

    /// Tells that the client must stop.
    fn lost(&self, hold: &Hold) -> Line {
        hold.service.metrics.lost(self.guard().name());
        Line { reason: Some(Reason::of(self.guard())), ..Line::of(Event::Lost, self.guard().name()) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(partings) = self.partings.take() else { return };
        let kept = self.guard.pass_on();
        let over = self.received + self.told_until;
        // Without a runtime it is handed over, and ends with its validity.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            sleep_until(over.into()).await;
            // What becomes of it is nobody's concern any more.
            let _ = kept.take().release().await;
            drop(partings);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure::Locks;

    use super::*;
    use crate::caller::Caller;
    use crate::lease_key::LeaseKeys;
    use crate::{Metrics, Service};

    /// A hold that is about to be so old that its client's clock may have run too far apart.
    #[tokio::test]
    async fn a_hold_ends_after_two_hundred_ttls_and_its_lease_goes_on() {
        let (ttl, left) = (Duration::from_millis(300), Duration::from_millis(250));
        let locks = Locks::memory();
        let service = Arc::new(Service::new(locks.clone(), LeaseKeys::parse(&"a".repeat(64)).unwrap()));
        let hold = Hold {
            service,
            caller: Caller::anybody(),
            received: Instant::now().checked_sub(200 * ttl - left).expect("it runs for longer"),
            on_disconnect: OnDisconnect::Keep,
            _counted: Metrics::default().hold(),
        };
        let guard = locks.lock("x").ttl(ttl).acquire().await.unwrap();
        let (line, mut stage) = Held::begin(guard, &hold);
        let mut events = vec![line.event];
        let mut last = line;
        while let Some((line, next)) = stage.next(&hold).await {
            events.push(line.event);
            (last, stage) = (line, next);
        }
        assert!(hold.received.elapsed() >= 200 * ttl, "{:?}", hold.received.elapsed());
        let (end, before) = events.split_last().unwrap();
        assert_eq!(*end, Event::Draining, "{events:?}");
        assert!(before.len() > 1 && before[1..].iter().all(|event| *event == Event::Renewed), "{events:?}");
        // The client goes on with the token, and nothing was released.
        assert!(last.lease.is_some());
        assert!(locks.lock("x").try_acquire().await.unwrap().is_none());
    }
}
