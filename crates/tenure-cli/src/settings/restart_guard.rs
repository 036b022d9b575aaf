//! The restart guard as people write it.

use tenure::RestartGuard;

pub(crate) const fn word(guard: RestartGuard) -> &'static str {
    match guard {
        RestartGuard::Strict => "strict",
        RestartGuard::Off => "off",
        _ => "evidence",
    }
}

pub(crate) fn parse(text: &str) -> Result<RestartGuard, String> {
    match text {
        "evidence" => Ok(RestartGuard::Evidence),
        "strict" => Ok(RestartGuard::Strict),
        "off" => Ok(RestartGuard::Off),
        other => Err(format!("{other:?} is no restart guard; use evidence, strict or off")),
    }
}
