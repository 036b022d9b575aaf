//! `TENURE_*` variables. One that is set and empty is most often a secret or a template that was
//! not filled in: to go on without it would mean other locks than the person thinks, so it is
//! refused, as an empty flag is.

use std::env::VarError;

use super::{ConfigError, Source, Sourced};

/// The value of a `TENURE_*` variable, if it is set.
///
/// # Errors
/// [`ConfigError::Invalid`] if it is empty, or not UTF-8.
pub fn variable(name: &str) -> Result<Option<String>, ConfigError> {
    match text(name)? {
        Some(text) if text.trim().is_empty() => {
            Err(ConfigError::invalid(format!("{name} is set but empty; give it a value or unset it")))
        }
        text => Ok(text),
    }
}

/// What a variable means, if it is set.
pub(super) fn read<T>(
    name: &'static str,
    read: impl FnOnce(&str, &'static str) -> Result<T, ConfigError>,
) -> Result<Option<Sourced<T>>, ConfigError> {
    let value = variable(name)?.map(|text| read(&text, name)).transpose()?;
    Ok(value.map(|value| Sourced { value, source: Source::Environment(name) }))
}

/// As [`read`], for a text that may be empty.
pub(super) fn read_empty_too(name: &'static str) -> Result<Option<Sourced<String>>, ConfigError> {
    Ok(text(name)?.map(|value| Sourced { value, source: Source::Environment(name) }))
}

/// Whether it is there, whatever it says.
pub(super) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

pub(super) fn truth(text: &str, from: &'static str) -> Result<bool, ConfigError> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(ConfigError::invalid(format!("{from}: {other:?} is not a boolean; use true or false"))),
    }
}

fn text(name: &str) -> Result<Option<String>, ConfigError> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(ConfigError::invalid(format!("{name} is not valid UTF-8; fix it or unset it")))
        }
    }
}
