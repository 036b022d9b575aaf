//! Where what is known of the nodes is kept: a file, the one of this user, or none.

use std::fmt;
use std::path::{Path, PathBuf};

use super::ConfigError;
use crate::fleet::known_nodes::Location;

/// Where Redis nodes are remembered: see
/// [`Builder::remember_nodes`](crate::Builder::remember_nodes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KnownNodes {
    /// In the file that this user's programs share. An embedded store needs none: it is a file
    /// itself.
    OfThisUser,
    /// In this file.
    In(PathBuf),
    /// Nowhere.
    Off,
}

impl KnownNodes {
    /// Reads `off`, or a path that is relative to `folder`.
    pub(super) fn read(text: &str, folder: &Path) -> Result<Self, &'static str> {
        match text {
            "" => Err("expected a file, or off"),
            "off" => Ok(Self::Off),
            path => Ok(Self::In(folder.join(path))),
        }
    }

    /// Reads a flag or a variable.
    pub(super) fn read_here(text: &str, from: &'static str) -> Result<Self, ConfigError> {
        let known =
            Self::read(text, Path::new("")).map_err(|why| ConfigError::invalid(format!("{from}: {why}")))?;
        Ok(match known {
            Self::In(path) => Self::In(std::path::absolute(&path).unwrap_or(path)),
            known => known,
        })
    }
}

impl fmt::Display for KnownNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfThisUser => match Location::user_default().path() {
                Ok(path) => write!(f, "{}", path.display()),
                Err(_) => f.write_str("no state folder"),
            },
            Self::In(path) => write!(f, "{}", path.display()),
            Self::Off => f.write_str("off"),
        }
    }
}
