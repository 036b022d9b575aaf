//! One file a command.

pub(crate) mod acquire;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod extend;
pub(crate) mod fleet;
pub(crate) mod lead;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod token;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod watch;
