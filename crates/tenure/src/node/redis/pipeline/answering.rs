//! What comes out of a pipeline: what each reply means to whoever asked, and what has to be asked
//! again.
//!
//! An answer may take several replies, and a reply may give several answers, or none. Scripts that
//! the server has forgotten are sent once more, whole.

use tenure_core::{Answer, Batch, Command, Fault, Reply};

use super::{Asks, InFlight, Pipeline, PipelineEvent, Tagged, Untimed};
use crate::node::Tag;
use crate::node::redis::info;
use crate::node::redis::resp::Value;
use crate::node::redis::script::{Form, Scripts, is_no_script};

impl Pipeline {
    /// What a reply tells, if it completes an answer.
    ///
    /// # Errors
    /// If the server is not what it was: who it is must be found out anew.
    pub(super) fn take_reply(
        &mut self,
        in_flight: InFlight,
        value: Value,
    ) -> Result<Option<PipelineEvent>, String> {
        // Those of a batch may have an error each.
        let values = match (in_flight.asks, &value) {
            (Asks::Batch(..), Value::List(list)) => &list[..],
            _ => std::slice::from_ref(&value),
        };
        let is_another = |value: &&Value| {
            let leads = ["READONLY", "LOADING", "MASTERDOWN"];
            matches!(value, Value::Error(message) if leads.iter().any(|lead| message.starts_with(lead)))
        };
        if let Some(Value::Error(message)) = values.iter().find(is_another) {
            // Whoever asked is told that the connection broke, as everybody behind.
            self.in_flight.push_front(in_flight);
            return Err(message.clone());
        }
        let InFlight { tag, command, asks } = in_flight;
        let answer = |answer| Ok(Some(PipelineEvent::Answer((tag, answer))));
        match (asks, command) {
            (Asks::Command(form), Some(command)) => self.take_command_reply(tag, command, form, value),
            (Asks::Batch(batch, form), _) => {
                let sent = self.batches_sent.pop_front().ok_or("an unsolicited reply")?;
                self.take_batch_reply(batch, sent, form, value)
            }
            (Asks::Renewals(form), _) => {
                let sent = self.renewals_sent.pop_front().ok_or("an unsolicited reply")?;
                if form == Form::Short && is_no_script(&value) {
                    self.send_renewals(sent, Form::Whole);
                    return Ok(None);
                }
                if let Value::Number(_) = &value {
                    let time =
                        Scripts::extended(value, 1).next().and_then(Result::ok).and_then(|reply| reply.time);
                    return Ok(Some(PipelineEvent::Renewed(sent, time)));
                }
                self.answers.extend(sent.tags().zip(Scripts::extended(value, sent.locks.len())));
                Ok(Some(PipelineEvent::Split(sent.batch)))
            }
            (Asks::Time, _) => {
                let time = Scripts::time(&value);
                for Untimed { tag, key, told } in std::mem::take(&mut self.untimed) {
                    if let Some(told) = told {
                        let reply = told.map(|answer| Reply::new(time, answer));
                        let answer = self.in_known_memory(reply);
                        self.answers.push_back((tag, answer));
                    } else {
                        // Another has it: for how long?
                        Scripts::encode_time_left(&mut self.output, &key);
                        self.ask(tag, None, Asks::TimeLeft);
                    }
                }
                Ok(self.answers.pop_front().map(PipelineEvent::Answer))
            }
            (Asks::TimeLeft, _) => answer(Scripts::time_left(value)),
            (Asks::Record, _) => {
                let Some(recorded) = self.recorded.take() else { return Ok(None) };
                self.stale = false;
                answer(recorded.and_then(|reply| match (&reply.answer, &value) {
                    (Answer::Record(Some(record)), Value::Text(text)) if **record == **text => Ok(reply),
                    (Answer::Record(None), Value::Null) => Ok(reply),
                    _ => Err(Fault::Error("the node's record was changed at the same time".into())),
                }))
            }
            (Asks::Info, _) => {
                self.survey = Some(if let Value::Text(info) = value { info } else { String::new() });
                Ok(None)
            }
            (Asks::Config, _) => {
                let info = self.survey.take().unwrap_or_default();
                let server = info::server(&info, &value, self.scripts.tracks_record, self.scripts.listens);
                Ok(Some(PipelineEvent::Surveyed(Box::new(server))))
            }
            (Asks::Awaited, _) => {
                let awaited = self.arming.pop_front().ok_or("an unsolicited reply")?;
                match value {
                    // It has ended meanwhile.
                    Value::Number(0) => return Ok(Some(awaited.wake())),
                    Value::Number(_) => {
                        self.awaited.retain(|other| other.key != awaited.key);
                        self.awaited.push(awaited);
                    }
                    // Then the waiter asks by itself.
                    _ => {}
                }
                Ok(None)
            }
            // A right that was taken away: from now on the record is looked at with every acquire.
            (Asks::Watch, _) if matches!(value, Value::Error(_)) => {
                self.scripts.tracks_record = false;
                Ok(None)
            }
            (Asks::Watch | Asks::Command(_), _) => Ok(None),
        }
    }

    fn take_batch_reply(
        &mut self,
        batch: Batch,
        mut sent: Vec<Tagged>,
        form: Form,
        value: Value,
    ) -> Result<Option<PipelineEvent>, String> {
        if form == Form::Short && is_no_script(&value) {
            self.send_batch_again(batch, sent);
        } else if batch == Batch::Releases && matches!(value, Value::Error(_)) {
            // A batch reads several keys at once, which a user may not be allowed to. Nothing has
            // been released by then.
            self.scripts.forbid(batch);
            self.batched -= sent.len();
            self.send_gathered();
            sent.drain(..).for_each(|(tag, command)| self.send_as(tag, command, Form::Short));
        } else {
            self.batched -= sent.len();
            let answers = Scripts::batch_replies(batch, sent.iter().map(|(_, command)| command), value);
            for ((tag, _), answer) in sent.iter().zip(answers) {
                let answer = if batch == Batch::Acquires { self.in_known_memory(answer) } else { answer };
                self.answers.push_back((*tag, answer));
            }
            self.gathered.reuse(batch, sent);
        }
        Ok(self.answers.pop_front().map(PipelineEvent::Answer))
    }

    /// Sends commands again that the server had no script for. What was gathered meanwhile goes
    /// before them, and what sets a lock must not come behind its release.
    fn send_batch_again(&mut self, batch: Batch, sent: Vec<Tagged>) {
        let (overtaken, kept): (Vec<_>, Vec<_>) =
            sent.into_iter().partition(|(_, command)| self.is_overtaken(command));
        self.batched -= overtaken.len();
        for (tag, _) in overtaken {
            let fault = Fault::Error("the server forgot the script".into());
            self.answers.push_back((tag, Err(fault)));
        }
        self.send_gathered();
        self.send_batch(batch, kept, Form::Whole);
    }

    fn take_command_reply(
        &mut self,
        tag: Tag,
        command: Command,
        form: Form,
        value: Value,
    ) -> Result<Option<PipelineEvent>, String> {
        let answer = |answer| Ok(Some(PipelineEvent::Answer((tag, answer))));
        if let Command::Acquire { key, token, .. } = &command
            && self.scripts.is_native_acquire(&command)
        {
            let told = Scripts::native_reply(token, value);
            // The record may be read again before the time comes.
            let told = told.map(|told| match self.stale {
                true => told.and(Err(changed())),
                false => told,
            });
            self.untimed.push(Untimed { tag, key: key.clone(), told });
            return Ok(None);
        }
        if form == Form::Short && is_no_script(&value) {
            // It goes to the end of the queue, where what sets a lock must not come: its release
            // may be before it.
            if self.is_overtaken(&command) {
                return answer(Err(Fault::Error("the server forgot the script".into())));
            }
            self.send_as(tag, command, Form::Whole);
            return Ok(None);
        }
        let mut reply = Scripts::reply(&command, &value);
        if let Command::Acquire { key, beside, .. } = &command {
            reply = self.in_known_memory(reply);
            let place = beside.as_ref().and_then(|beside| beside.place);
            if let (Some(place), Ok(Reply { line: Some(line), .. })) = (place, &reply)
                && line.foreign
                && !key.is_set()
                && line.place.is_some_and(|(ahead, _)| ahead == 0)
            {
                self.await_change(key, place.ticket.number);
            }
        }
        if matches!(command, Command::Record { .. }) && self.scripts.tracks_record {
            self.recorded = Some(reply);
            return Ok(None);
        }
        answer(reply)
    }

    /// A lock that was set in a memory that is not the one we know is no lock. The server says that
    /// the record has changed before it answers anything that came after.
    fn in_known_memory(&self, reply: Result<Reply, Fault>) -> Result<Reply, Fault> {
        match reply {
            Ok(Reply { answer: Answer::Granted, .. }) if self.stale => Err(changed()),
            reply => reply,
        }
    }

    /// Whether an undo or a release of what this command would set is under way already.
    fn is_overtaken(&self, command: &Command) -> bool {
        let (Command::Acquire { token, .. } | Command::Heal { token, .. }) = command else { return false };
        let ends = |command: &Command| match command {
            Command::Undo { token: ended, .. } | Command::Release { token: ended, .. } => ended == token,
            _ => false,
        };
        let single = self.in_flight.iter().filter_map(|in_flight| in_flight.command.as_ref());
        let batched = self.batches_sent.iter().flatten().chain(self.gathered.iter());
        single.chain(batched.map(|(_, command)| command)).any(ends)
    }
}

fn changed() -> Fault {
    Fault::Error("the node's record has changed".into())
}
