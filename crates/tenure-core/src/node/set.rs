//! Commands about several names at once.
//!
//! Acquires and extensions are all or nothing: every name is looked at before any is touched. All
//! other commands are carried out name by name, and what a node says for one that is not ours it
//! says for all.

use super::rules::{Visit, execute, visit};
use super::{Owner, Shelf};
use crate::command::{Answer, Command, Holdings, Refusal, Reply};
use crate::fence::ProposedFence;
use crate::line::{Beside, LineReport, PlaceRequest, Ticket};
use crate::mode::Kind;
use crate::names::LockKey;
use crate::time::NodeTime;
use crate::token::OwnerToken;

pub(super) fn execute_all<S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    command: &Command,
    keys: &[LockKey],
) -> Result<Reply, S::Trouble> {
    let blocked = match command {
        Command::Acquire { token, fence, beside, .. } => {
            let place = beside.as_ref().and_then(|beside| beside.place);
            blocked(shelf, now, keys, place, |visit| visit.is_free_for(*token, *fence, place))?
        }
        Command::Extend { token, .. } => {
            first_that(shelf, now, keys, |visit| !visit.name.is_held_by(*token))?
        }
        _ => None,
    };
    if let Command::Inspect { .. } = command {
        return look_at(shelf, now, keys);
    }
    if let Some(key) = blocked {
        // One that waits gets in line for this name, and for this name alone.
        return execute(shelf, now, &command.about(key));
    }
    if let Command::Acquire { token, nonce, fence, beside, .. } = command {
        let record = shelf.record(keys[0].prefix())?;
        if nonce.is_some_and(|nonce| !record.is_some_and(|record| nonce.begins(&record))) {
            return Ok(Reply::new(Some(now), Answer::Refused(Refusal::Stranger)));
        }
        if let Some(refused) = fence.map(|fence| refuse_fence(shelf, now, keys, *token, fence)).transpose()?
            && let Some(reply) = refused
        {
            return Ok(reply);
        }
        if let Some(place) = beside.as_ref().and_then(|beside| beside.place) {
            displace(shelf, now, keys, place.ticket)?;
        }
    }
    let mut all = Reply::new(Some(now), Answer::Granted);
    let mut passed_on = None;
    for key in keys {
        let reply = execute(shelf, now, &command.about(key))?;
        let one = reply.line.as_ref().and_then(|line| line.passed_on);
        // All of them could be had when the last one was passed on.
        passed_on = passed_on.into_iter().chain(one).min();
        all = and(all, reply);
    }
    if let Command::Acquire { .. } = command {
        assert_eq!(all.answer, Answer::Granted, "all names were looked at before");
        // Whoever waits for several names lets nobody go first: order is not promised to it.
        all.line = passed_on
            .map(|passed_on| Box::new(LineReport { passed_on: Some(passed_on), ..LineReport::default() }));
    }
    Ok(all)
}

/// Who has which of them, as a list tells it.
fn look_at<S: Shelf>(shelf: &mut S, now: NodeTime, keys: &[LockKey]) -> Result<Reply, S::Trouble> {
    let mut found = vec![];
    for key in keys {
        visit(shelf, now, Some(key), |visit| {
            let group = visit.name.group.as_ref();
            found.extend(visit.name.entry.map(|entry| entry.holding(visit.now_ms, key.as_str(), group)));
            Ok(Answer::Granted)
        })?;
    }
    Ok(Reply::new(Some(now), Holdings { found, ..Holdings::default() }.into()))
}

/// The first name that is not free. Whoever is in line for one that is not stays there: who went
/// from line to line would have a name set aside in vain each time that it is free, for as long as
/// another one is held.
fn blocked<'a, S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    keys: &'a [LockKey],
    place: Option<PlaceRequest>,
    is_free: impl Fn(&Visit<'_, S>) -> bool,
) -> Result<Option<&'a LockKey>, S::Trouble> {
    let mut first = None;
    for key in keys {
        let (mut is_blocked, mut is_in_line) = (false, false);
        visit(shelf, now, Some(key), |visit| {
            is_blocked = !is_free(visit);
            if let (true, Some(place)) = (is_blocked, place) {
                is_in_line = visit.is_in_line(key, place.ticket)?;
            }
            Ok(Answer::Granted)
        })?;
        if is_in_line {
            return Ok(Some(key));
        }
        first = first.or(is_blocked.then_some(key));
    }
    Ok(first)
}

/// The first name of which this is true.
fn first_that<'a, S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    keys: &'a [LockKey],
    is_it: impl Fn(&Visit<'_, S>) -> bool,
) -> Result<Option<&'a LockKey>, S::Trouble> {
    for key in keys {
        let said = visit(shelf, now, Some(key), |visit| {
            Ok(if is_it(visit) { Answer::Granted } else { Answer::Refused(Refusal::NotHeld) })
        })?;
        if said.answer == Answer::Granted {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// One fence is for all names: it has to be larger than the last one of each.
fn refuse_fence<S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    keys: &[LockKey],
    token: OwnerToken,
    proposed: ProposedFence,
) -> Result<Option<Reply>, S::Trouble> {
    let mut refused: Option<Reply> = None;
    for key in keys {
        let reply = visit(shelf, now, Some(key), |visit| {
            // Asked again, because the first answer was lost.
            let refusal = if visit.name.is_held_by(token) {
                None
            } else {
                visit.refusal_of(proposed, &Beside::default())
            };
            Ok(refusal.map_or(Answer::Granted, |refusal| visit.refuse(refusal, Some(proposed))))
        })?;
        if reply.answer != Answer::Granted {
            let fence = reply.fence.max(refused.and_then(|refused| refused.fence));
            refused = Some(Reply { fence, ..reply });
        }
    }
    Ok(refused)
}

/// What is set aside for somebody with a larger ticket, who gets back in line. Else those who want
/// several names would keep them from each other.
fn displace<S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    keys: &[LockKey],
    ticket: Ticket,
) -> Result<(), S::Trouble> {
    for key in keys {
        visit(shelf, now, Some(key), |visit| {
            if let Some(Owner::Reserved(other)) = visit.name.entry.map(|entry| entry.owner)
                && other != ticket
            {
                visit.name.entry = None;
                visit.get_in_line(key, other)?;
            }
            Ok(Answer::Granted)
        })?;
    }
    Ok(())
}

impl<S: Shelf> Visit<'_, S> {
    fn is_free_for(
        &self,
        token: OwnerToken,
        proposed: Option<ProposedFence>,
        place: Option<PlaceRequest>,
    ) -> bool {
        let is_open = place.is_some() && self.name.open_for(self.now_ms).is_some();
        let Some(entry) = self.name.entry else { return !is_open };
        match entry.owner {
            Owner::Token(owner) => {
                let same_fence = proposed.is_none_or(|fence| self.name.last_fence() == Some(fence.top()));
                owner == token && entry.counts_from_ms.is_none() && same_fence
            }
            Owner::Reserved(other) => place.is_some_and(|PlaceRequest { ticket, .. }| {
                ticket == other || ticket < other && other.kind() == Kind::Plain && !is_open
            }),
            Owner::Kept(_) | Owner::Shared | Owner::Owned => false,
        }
    }
}

/// What two names come to.
fn and(one: Reply, other: Reply) -> Reply {
    let answer = match (one.answer, other.answer) {
        (Answer::Refused(refusal), _) | (_, Answer::Refused(refusal)) => Answer::Refused(refusal),
        (Answer::PutBack { left }, Answer::PutBack { left: other }) => {
            Answer::PutBack { left: left.max(other) }
        }
        (put_back @ Answer::PutBack { .. }, _) => put_back,
        (_, answer) => answer,
    };
    let refused = matches!(answer, Answer::Refused(_));
    let line = one.line.or(other.line).filter(|_| !refused);
    Reply { answer, line, fence: one.fence.max(other.fence), time: one.time }
}
