//! The lock that `extend` and `release` are about: typed, or as `acquire --export` and `run` left it in the environment.

use crate::failure::Failure;
use crate::lease_token::LeaseToken;

/// Its name and its token.
pub(super) fn lock(name: Option<&str>, token: Option<&str>) -> Result<(String, LeaseToken), Failure> {
    let exported = || variable("TENURE_LOCK");
    let name = match name {
        Some(name) => name.to_owned(),
        None => exported()?.ok_or_else(|| {
            Failure::usage("which lock? Give its name, or set TENURE_LOCK as `acquire --export` does")
        })?,
    };
    let token = match token {
        Some(token) => token.to_owned(),
        // A token is one lock's: it is of no use to another.
        None => match (exported()?, variable("TENURE_TOKEN")?) {
            (Some(other), Some(_)) if other != name => {
                return Err(Failure::usage(format!(
                    "TENURE_TOKEN is the token of lock {other:?}; give that of {name:?} with --token"
                ))
                .of_lock(&name));
            }
            (_, Some(token)) => token,
            (_, None) => {
                return Err(Failure::usage(format!(
                    "lock {name:?} needs its token: give what `acquire` printed with --token, or set TENURE_TOKEN"
                ))
                .of_lock(&name));
            }
        },
    };
    Ok((name, LeaseToken::parse(&token)?))
}

/// Set and empty is a mistake, as with every variable of ours.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => {
            Err(Failure::usage(format!("{name} is set but empty; give it a value, or unset it")))
        }
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::usage(format!("{name} is not UTF-8; set it anew, or unset it")))
        }
    }
}
