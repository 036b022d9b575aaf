//! What the machine has for us: a clock, and folders.

pub(crate) mod clock;
#[cfg(unix)]
pub(crate) mod folder;
pub(crate) mod home;
