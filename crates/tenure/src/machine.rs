//! What the machine has for us: a clock, and folders.

pub(crate) mod clock;
pub(crate) mod home;
#[cfg(unix)]
pub(crate) mod place;
