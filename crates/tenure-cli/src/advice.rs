//! What `doctor` makes of nodes and settings together.

/// Something about the whole, and what to do.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) advice: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Good,
    Warning,
    Danger,
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }
}
