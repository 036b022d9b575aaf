//! Whom the tool asks for locks: the nodes, or a service that asks them. And a lock that it holds.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::{ExtendError, Fence, Guard, Handover, LeaseToken, Locks, Risk, ShutdownError};

use crate::ballot::Ballot;
use crate::failure::Failure;
use crate::lease::{Lease, token_of_nodes};
use crate::output::Output;
use crate::service::{Held, Service, Told, Trouble};
use crate::settings::Settings;

/// Whom we ask.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Nodes(Locks),
    Service(Service),
}

/// A lock that we hold and that is renewed, until this is dropped or handed over.
#[derive(Debug)]
pub(crate) enum Holding {
    Nodes(Guard),
    Service(Held),
}

/// What another process of ours needs to go on with a lock, in one line.
#[derive(Clone, Debug)]
pub(crate) enum Baton {
    Nodes(Box<Handover>),
    Service { names: Vec<String>, token: String },
}

/// Why a lock cannot be gone on with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotResumed {
    /// Nobody can say; perhaps later.
    NotNow,
    /// It is lost, for this reason if one is known.
    Lost(Option<Risk>),
}

impl Backend {
    /// Nothing is asked yet.
    pub(crate) fn connect(settings: &Settings) -> Result<Self, Failure> {
        match settings.service() {
            Some(service) => Service::connect(service).map(Self::Service),
            None => settings.connect(|_| ()).map(Self::Nodes),
        }
    }

    /// The same, and warns if what is known of the nodes cannot be kept.
    pub(crate) fn connect_aloud(settings: &Settings, output: &Output) -> Result<Self, Failure> {
        match settings.service() {
            Some(_) => Self::connect(settings),
            None => settings.connect_aloud(output, |_| ()).map(Self::Nodes),
        }
    }

    /// What goes on with a lock whose token a script has; its term is at most this.
    pub(crate) fn baton(&self, name: &str, token: &str, ttl_max: Duration) -> Result<Baton, Failure> {
        Ok(match self {
            Self::Nodes(_) => {
                let token = token_of_nodes(token)?;
                Baton::Nodes(Box::new(token.handover(name, token.ttl().min(ttl_max))))
            }
            Self::Service(_) => Baton::Service { names: vec![name.to_owned()], token: token.to_owned() },
        })
    }

    /// Waits until the nodes are known.
    pub(crate) async fn ready(&self) {
        if let Self::Nodes(locks) = self {
            locks.ready().await;
        }
    }

    /// Goes on with a lock.
    pub(crate) async fn resume(&self, baton: &Baton) -> Result<Holding, NotResumed> {
        match (self, baton) {
            (Self::Nodes(locks), Baton::Nodes(handover)) => {
                locks.resume(handover).await.map(Holding::Nodes).map_err(|error| match error {
                    ExtendError::Unavailable { .. } | ExtendError::Refused { .. } => NotResumed::NotNow,
                    ExtendError::Lost { .. } => NotResumed::Lost(Some(Risk::Taken)),
                    ExtendError::MaxHold { .. } => NotResumed::Lost(Some(Risk::Limit)),
                    _ => NotResumed::Lost(None),
                })
            }
            (Self::Service(service), Baton::Service { names, token }) => {
                let told =
                    service.extend(names, token).await.map_err(|trouble| NotResumed::from(&trouble))?;
                Ok(Holding::Service(Held::keep(service.clone(), told)))
            }
            _ => Err(NotResumed::Lost(None)),
        }
    }

    /// `early`: others may have it at once, though it was to be kept from them.
    pub(crate) async fn release(&self, baton: &Baton, early: bool) -> Result<Ballot, Failure> {
        match (self, baton) {
            (Self::Nodes(locks), Baton::Nodes(handover)) => {
                let mut handover = handover.clone();
                if early {
                    handover.at_least = Duration::ZERO;
                }
                Ok(Ballot::from(&locks.release_everywhere(&handover).await?.votes))
            }
            (Self::Service(service), Baton::Service { names, token }) => {
                service.release(names, token, early).await
            }
            // A process and its keeper have the same settings.
            _ => unreachable!("a lock of a service is not one of nodes"),
        }
    }

    /// Waits until nothing is left to do in the background: for so long at most, if that is said.
    pub(crate) async fn shutdown(&self, limit: Option<Duration>) -> Result<(), ShutdownError> {
        match (self, limit) {
            (Self::Nodes(locks), None) => locks.shutdown().await,
            (Self::Nodes(locks), Some(limit)) => locks.shutdown_within(limit).await,
            (Self::Service(_), _) => Ok(()),
        }
    }
}

impl Holding {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Nodes(guard) => guard.name().to_owned(),
            Self::Service(held) => held.told().name(),
        }
    }

    /// Whether it has more than one name.
    pub(crate) fn is_of_several(&self) -> bool {
        match self {
            Self::Nodes(guard) => guard.names().nth(1).is_some(),
            Self::Service(held) => held.told().names.len() > 1,
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        match self {
            Self::Nodes(guard) => guard.fence(),
            Self::Service(held) => held.told().fence,
        }
    }

    /// How whoever waits for another lock says that it holds this one.
    pub(crate) fn held(&self) -> Option<tenure::Held> {
        match self {
            Self::Nodes(guard) => Some(guard.into()),
            Self::Service(held) => held.told().held,
        }
    }

    /// What a script goes on with.
    pub(crate) fn token(&self) -> String {
        match self {
            Self::Nodes(guard) => LeaseToken::of(&guard.to_handover()).to_string(),
            Self::Service(held) => held.told().token,
        }
    }

    /// Takes the lock out, for a script to go on with.
    pub(crate) async fn lease(self, ttl: Duration) -> Lease {
        match self {
            Self::Nodes(guard) => Lease::hand_over(guard, ttl, None).await,
            Self::Service(held) => held.told().lease(),
        }
    }

    /// For how long it is ours, if nothing more is heard.
    pub(crate) fn valid_for(&self) -> Duration {
        match self {
            Self::Nodes(guard) => guard.valid_for(),
            Self::Service(held) => held.valid_for(),
        }
    }

    /// Resolves when it is lost.
    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        match self {
            Self::Nodes(guard) => Box::pin(guard.lost()),
            Self::Service(held) => Box::pin(held.lost()),
        }
    }

    /// Why it may end, or has ended.
    pub(crate) fn risk(&self) -> Option<Risk> {
        match self {
            Self::Nodes(guard) => guard.risk(),
            Self::Service(held) => held.risk(),
        }
    }

    /// What it takes to go on with it elsewhere, while it stays ours.
    pub(crate) fn baton(&self) -> Baton {
        match self {
            Self::Nodes(guard) => Baton::Nodes(Box::new(guard.to_handover())),
            Self::Service(held) => {
                let Told { names, token, .. } = held.told();
                Baton::Service { names, token }
            }
        }
    }

    /// Lets somebody else go on with it: it is renewed here no longer.
    pub(crate) fn hand_over(self) -> Baton {
        match self {
            Self::Nodes(guard) => Baton::Nodes(Box::new(guard.hand_over())),
            Self::Service(_) => self.baton(),
        }
    }

    pub(crate) async fn release(self) -> Result<(), Failure> {
        match self {
            Self::Nodes(guard) => Ok(guard.release().await.map(|_| ())?),
            Self::Service(held) => held.release(false).await,
        }
    }

    /// The same, and others may have it at once, though it was to be kept from them.
    pub(crate) async fn release_early(self) -> Result<(), Failure> {
        match self {
            Self::Nodes(guard) => Ok(guard.release_early().await.map(|_| ())?),
            Self::Service(held) => held.release(true).await,
        }
    }
}

impl fmt::Display for Baton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(handover) => handover.fmt(f),
            Self::Service { names, token } => json!({ "names": names, "token": token }).fmt(f),
        }
    }
}

impl FromStr for Baton {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        // The text of a handover never begins like this.
        if !line.starts_with('{') {
            return line.parse().map(|handover| Self::Nodes(Box::new(handover))).map_err(|_| ());
        }
        let told: Value = serde_json::from_str(line).map_err(|_| ())?;
        let names = told["names"].as_array().ok_or(())?.iter();
        let names = names.map(|name| name.as_str().map(str::to_owned).ok_or(())).collect::<Result<_, _>>()?;
        Ok(Self::Service { names, token: told["token"].as_str().ok_or(())?.to_owned() })
    }
}

impl From<&Trouble> for NotResumed {
    fn from(trouble: &Trouble) -> Self {
        if trouble.may_pass() { Self::NotNow } else { Self::Lost(trouble.risk()) }
    }
}
