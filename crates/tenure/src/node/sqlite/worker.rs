//! The thread that works on a store: it opens it, and executes what has come together in one
//! transaction.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tenure_core::{ClientId, Command, Fault, Next, Ticket};
use tokio::sync::mpsc::UnboundedSender;

use super::store::{NotDone, OpenOptions, Store};
use super::trouble::{Result, Trouble};
use super::wake::{Ear, Sockets};
use crate::node::{NodeEvent, Server, Tag};

/// The most commands of one transaction: one write to the disk for all, and none waits long for the
/// others.
const BATCH_MAX: usize = 256;

/// How long a store that could not be opened is left alone.
const PAUSE: Duration = Duration::from_millis(250);

/// What the worker is asked for.
pub(super) enum Order {
    Execute(Tag, Command),
    Survey,
}

/// An open store and the way to its clients.
struct Workplace {
    options: OpenOptions,
    store: Store,
    sockets: Sockets,
    client: ClientId,
    /// Where we are woken, once somebody of us waits.
    ear: Option<Ear>,
}

/// Works until nobody asks any more.
pub(super) fn work(
    options: &OpenOptions,
    client: ClientId,
    orders: &Receiver<Order>,
    events: &UnboundedSender<NodeEvent>,
) {
    // Until it is open again, and says so to everybody.
    let mut forgot = false;
    loop {
        let fault = match Workplace::open(options, client, forgot) {
            Ok(mut workplace) => {
                let _ = events.send(NodeEvent::Connected(Box::new(server(&workplace.store))));
                match workplace.serve(orders, events) {
                    Ok(()) => return,
                    Err(trouble) => {
                        forgot = workplace.store.has_forgotten();
                        let fault = fault(options, &trouble, false);
                        tracing::warn!(target: "tenure", ?fault, "the embedded store is gone");
                        let _ = events.send(NodeEvent::Disconnected(fault.clone()));
                        fault
                    }
                }
            }
            Err(trouble) => {
                let fault = fault(options, &trouble, trouble.needs_fixing());
                let _ = events.send(NodeEvent::Unreachable(fault.clone()));
                fault
            }
        };
        if refuse_for_a_while(&fault, orders, events).is_err() {
            return;
        }
    }
}

fn fault(options: &OpenOptions, trouble: &Trouble, needs_fixing: bool) -> Fault {
    Fault::Store { reason: trouble.words(&options.path).into(), may_have_run: false, needs_fixing }
}

fn server(store: &Store) -> Server {
    Server::embedded(&store.life())
}

/// Tells whoever asks why there is no store. An error if nobody can ask any more.
fn refuse_for_a_while(
    fault: &Fault,
    orders: &Receiver<Order>,
    events: &UnboundedSender<NodeEvent>,
) -> std::result::Result<(), RecvTimeoutError> {
    let start = std::time::Instant::now();
    loop {
        match orders.recv_timeout(PAUSE.saturating_sub(start.elapsed())) {
            Ok(Order::Execute(tag, _)) => {
                let _ = events.send(NodeEvent::Answer(tag, Err(fault.clone())));
            }
            Ok(Order::Survey) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(gone @ RecvTimeoutError::Disconnected) => return Err(gone),
        }
    }
}

impl Workplace {
    fn open(options: &OpenOptions, client: ClientId, forgot: bool) -> Result<Self> {
        let store = Store::open(options, forgot)?;
        let sockets = Sockets::beside(&options.path, store.is_shared())?;
        Ok(Self { options: options.clone(), store, sockets, client, ear: None })
    }

    /// Whoever gets in line can be woken from then on.
    fn listen(&mut self, events: &UnboundedSender<NodeEvent>) -> Result<()> {
        if self.ear.is_none() {
            let ear = self.sockets.listen(self.client)?;
            let events = events.clone();
            ear.start(move |number, key| {
                let _ = events.send(NodeEvent::Woken { number, key });
            })?;
            self.ear = Some(ear);
        }
        Ok(())
    }

    /// Executes what comes until nobody asks any more, or the store does not work.
    fn serve(&mut self, orders: &Receiver<Order>, events: &UnboundedSender<NodeEvent>) -> Result<()> {
        let mut batch: Vec<(Tag, Command)> = vec![];
        loop {
            let Ok(first) = orders.recv() else { return Ok(()) };
            let mut next = Some(first);
            while let Some(order) = next.take() {
                match order {
                    Order::Execute(tag, command) => batch.push((tag, command)),
                    Order::Survey => {
                        let _ = events.send(NodeEvent::Surveyed(Box::new(server(&self.store))));
                    }
                }
                if batch.len() < BATCH_MAX {
                    next = orders.try_recv().ok();
                }
            }
            if !batch.is_empty() {
                self.execute(&mut batch, events)?;
            }
        }
    }

    fn execute(
        &mut self,
        batch: &mut Vec<(Tag, Command)>,
        events: &UnboundedSender<NodeEvent>,
    ) -> Result<()> {
        let mut wakes: Vec<(Arc<str>, Ticket)> = vec![];
        if batch.iter().any(|(_, command)| waits(command))
            && let Err(trouble) = self.listen(events)
        {
            // Whoever cannot be woken would be taken for dead, so it may not wait. The others are
            // not to suffer for it.
            let mut deaf: Vec<_> = batch.extract_if(.., |(_, command)| waits(command)).collect();
            answer_all(&mut deaf, events, &fault(&self.options, &trouble, false));
        }
        let (sockets, commands) = (&self.sockets, batch.iter().map(|(_, command)| command));
        match self.store.execute(commands, &|ticket| sockets.listens(ticket), &mut wakes) {
            Ok(replies) => {
                wakes.iter().for_each(|(key, ticket)| self.sockets.wake(key, *ticket));
                for ((tag, _), reply) in batch.drain(..).zip(replies) {
                    let _ = events.send(NodeEvent::Answer(tag, Ok(reply)));
                }
                Ok(())
            }
            // The store itself is in order.
            Err(NotDone { trouble, maybe: false }) if trouble.is_busy() => {
                answer_all(batch, events, &fault(&self.options, &trouble, false));
                Ok(())
            }
            Err(NotDone { trouble, maybe }) => {
                let reason = trouble.words(&self.options.path).into();
                answer_all(batch, events, &Fault::Store { reason, may_have_run: maybe, needs_fixing: false });
                Err(trouble)
            }
        }
    }
}

/// Whether somebody gets in line by this command.
fn waits(command: &Command) -> bool {
    match command {
        Command::Acquire { beside, .. } => beside.as_ref().is_some_and(|beside| beside.place.is_some()),
        Command::Undo { requeue, .. } => requeue.is_some(),
        Command::Release { next: Next::InLineWith(_), .. } | Command::Enqueue { .. } => true,
        _ => false,
    }
}

fn answer_all(batch: &mut Vec<(Tag, Command)>, events: &UnboundedSender<NodeEvent>, fault: &Fault) {
    for (tag, _) in batch.drain(..) {
        let _ = events.send(NodeEvent::Answer(tag, Err(fault.clone())));
    }
}
