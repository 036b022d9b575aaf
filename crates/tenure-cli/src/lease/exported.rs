//! The lock that `extend` and `release` are about: typed, or as `acquire --export` and `run` left
//! it in the environment.

use tenure::config::variable;

use crate::failure::Failure;

/// Its name and its token.
pub(crate) fn lock(name: Option<&str>, token: Option<&str>) -> Result<(String, String), Failure> {
    let exported = || variable("TENURE_LOCK");
    let name = match name {
        Some(name) => name.to_owned(),
        None => exported()?.ok_or_else(|| {
            Failure::usage("which lock? Pass its name, or set TENURE_LOCK as `acquire --export` does")
        })?,
    };
    let token = match token {
        Some(token) => token.to_owned(),
        // A token is one lock's: it is of no use to another.
        None => match (exported()?, variable("TENURE_TOKEN")?) {
            (Some(other), Some(_)) if other != name => {
                return Err(Failure::usage(format!(
                    "TENURE_TOKEN is the token of lock {other:?}; pass the one of {name:?} with --token"
                ))
                .of_lock(&name));
            }
            (_, Some(token)) => token,
            // As `run` lists several names for its command.
            (Some(several), None) if several == name && name.contains(", ") => {
                return Err(Failure::usage(format!(
                    "{name:?} has no token of its own: several names are extended and released by the `run` \
                     that holds them"
                ))
                .of_lock(&name));
            }
            (_, None) => {
                return Err(Failure::usage(format!(
                    "lock {name:?} needs its token: pass what `acquire` printed with --token, or set \
                     TENURE_TOKEN"
                ))
                .of_lock(&name));
            }
        },
    };
    Ok((name, token))
}
