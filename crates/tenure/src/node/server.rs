//! What a node's server says about itself, and what that means for its votes.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Facts, Life};

/// A server's own words, as far as it let us see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    /// Name and version, as in `redis 7.0.15`.
    pub(crate) version: Option<Arc<str>>,
    pub(crate) role: Role,
    pub(crate) life: Option<Life>,
    /// It was once promoted from a replica, or had replicas.
    pub(crate) promoted: bool,
    pub(crate) replicas: u32,
    /// What it has used since it started.
    pub(crate) cpu_time: Option<Duration>,
    /// What it uses, in bytes.
    pub(crate) memory_used: Option<u64>,
    pub(crate) persistence: Persistence,
    /// The policy by which it throws keys away when its memory is full; `None` if it does not.
    pub(crate) eviction: Option<Arc<str>>,
    /// What this user may not do, and which protection is off for that.
    pub(crate) unprotected: Vec<&'static str>,
    /// It does not say which server it is, and what is not noticed for that.
    pub(crate) unnamed: Option<&'static str>,
    /// It has forgotten nothing since it came to be, and knows.
    pub(crate) intact: bool,
}

/// The role of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Role {
    /// It did not say.
    #[default]
    Unknown,
    /// A master, as a node must be.
    Master,
    /// A replica of another server.
    Replica,
    /// A part of a cluster.
    Cluster,
    /// A sentinel, which stores nothing.
    Sentinel,
    /// A store in this process, or in a file on this machine.
    Embedded,
}

/// What a server keeps across a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Persistence {
    /// It did not say.
    #[default]
    Unknown,
    /// Nothing.
    None,
    /// Snapshots: writes after the last one are lost.
    Snapshots,
    /// A log that is synced to disk now and then: the last second or more is lost.
    Log,
    /// A log that is synced to disk before every reply: nothing is lost if the disk is honest.
    Always,
}

impl Server {
    /// A store in this process's memory.
    pub(super) fn memory(intact: bool) -> Self {
        Self { role: Role::Embedded, intact, ..Self::default() }
    }

    /// A file on this machine's disk, of this name among all files.
    #[cfg(feature = "embedded")]
    pub(super) fn embedded(life: &Arc<str>) -> Self {
        let life = Some(Life { process: Arc::clone(life), lineage: Arc::clone(life) });
        let version = Some(format!("sqlite {}", rusqlite::version()).into());
        Self { role: Role::Embedded, version, life, persistence: Persistence::Always, ..Self::default() }
    }

    /// What this means for its votes.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            life: self.life.clone(),
            intact: self.intact,
            durable: self.persistence == Persistence::Always,
            promoted: self.promoted,
            unfit: self.unfit().map(Into::into),
            doubtful: self.doubtful().map(Into::into),
        }
    }

    /// Why it must not be a node at all.
    fn unfit(&self) -> Option<&'static str> {
        match self.role {
            Role::Replica => Some("it is a replica; every node must be an independent master"),
            Role::Cluster => Some("it is part of a cluster; every node must be an independent server"),
            Role::Sentinel => Some("it is a sentinel, which stores no data; list the server itself"),
            Role::Unknown | Role::Master | Role::Embedded => None,
        }
    }

    /// Why it is not to be used where the restart guard is strict.
    fn doubtful(&self) -> Option<String> {
        if self.replicas > 0 {
            return Some(format!(
                "it has {} replicas, and restart_guard is strict; a failover would lose locks",
                self.replicas
            ));
        }
        if self.unnamed.is_some() {
            return Some(
                "INFO does not identify the server (run_id and master_replid), and restart_guard is \
                 strict; a restart could go unnoticed"
                    .to_owned(),
            );
        }
        let policy = self.eviction.as_ref()?;
        Some(format!("it evicts keys when its memory is full ({policy}), and restart_guard is strict"))
    }
}
