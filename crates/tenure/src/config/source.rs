//! Values that remember where they come from.

use std::fmt;
use std::path::PathBuf;

use super::ConfigError;

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// This flag.
    Flag(&'static str),
    /// This variable.
    Environment(&'static str),
    /// A file.
    #[non_exhaustive]
    File {
        /// The file.
        path: PathBuf,
        /// The line in it.
        line: usize,
    },
    /// The default.
    Default,
}

impl<T> Sourced<T> {
    /// What a flag says, if it was typed.
    pub(super) fn flag(
        name: &'static str,
        text: Option<&str>,
        read: impl FnOnce(&str, &'static str) -> Result<T, ConfigError>,
    ) -> Result<Option<Self>, ConfigError> {
        let value = text.map(|text| read(text, name)).transpose()?;
        Ok(value.map(|value| Self { value, source: Source::Flag(name) }))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Environment(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

pub(super) const fn default<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Default }
}

/// The first that is there.
pub(super) fn first<T>(values: impl IntoIterator<Item = Option<Sourced<T>>>) -> Option<Sourced<T>> {
    values.into_iter().flatten().next()
}

/// What nobody said is a default, too.
pub(super) fn optional<T>(value: Option<Sourced<T>>) -> Sourced<Option<T>> {
    match value {
        Some(Sourced { value, source }) => Sourced { value: Some(value), source },
        None => default(None),
    }
}
