//! Durations as people write them: `500ms`, `30s`, `1.5m`, `1h30m`, `2d`.

use std::time::Duration;

use tenure_core::{MaxHold, Wait};

use super::ConfigError;

/// A duration that came from somewhere.
pub(super) fn read(text: &str, from: &'static str) -> Result<Duration, ConfigError> {
    parse(text).map_err(|problem| ConfigError::invalid(format!("{from}: {problem}")))
}

/// A time to wait that came from somewhere.
pub(super) fn read_wait(text: &str, from: &'static str) -> Result<Wait, ConfigError> {
    parse_wait(text).map_err(|problem| ConfigError::invalid(format!("{from}: {problem}")))
}

/// Parses a duration: `500ms`, `30s`, `1.5m`, `1h30m`, `2d`.
///
/// # Errors
/// What is wrong with it, and how to write one.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err("the duration is missing; expected one such as 500ms, 30s, 2m or 1h".to_owned());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "" if !number.is_empty() => {
                return Err(format!("{text:?} has no unit; write {number}s or {number}ms"));
            }
            _ => {
                return Err(format!("{text:?} is not a duration; expected one such as 500ms, 30s, 2m or 1h"));
            }
        };
        let number: f64 =
            number.parse().map_err(|_| format!("{text:?} is not a duration; expected one such as 30s"))?;
        // Whole microseconds: what comes from fractions is rounded, and 0.1 s is 100 ms.
        let part = Duration::try_from_secs_f64((number * seconds * 1e6).round() / 1e6);
        let part = part.map_err(|_| format!("the duration {text:?} is too long"))?;
        total = total.checked_add(part).ok_or_else(|| format!("the duration {text:?} is too long"))?;
        rest = behind;
    }
    Ok(total)
}

pub(super) fn parse_wait(text: &str) -> Result<Wait, String> {
    match text.trim() {
        "forever" => Ok(Wait::Forever),
        _ => match parse(text).map_err(|problem| format!("{problem}, or `forever`"))? {
            Duration::ZERO => Ok(Wait::No),
            wait => Ok(Wait::AtMost(wait)),
        },
    }
}

/// Parses a `max_hold`: a duration, or `forever`.
///
/// # Errors
/// What is wrong with it, and how to write one.
pub fn parse_max_hold(text: &str) -> Result<MaxHold, String> {
    match text.trim() {
        "forever" => Ok(MaxHold::Unlimited),
        _ => Ok(MaxHold::AtMost(parse(text).map_err(|problem| format!("{problem}, or `forever`"))?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("0.1s", 100),
            ("1h30m", 5_400_000),
            (" 2m ", 120_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_how_to_write_one() {
        for text in
            ["", "30", "s", "30x", "-1s", "1..5s", "forever", "1e400s", "99999999999999999999h", "30 s"]
        {
            let problem = parse(text).unwrap_err();
            assert!(
                ["write", "expected", "too long"].iter().any(|word| problem.contains(word)),
                "{text}: {problem}"
            );
        }
        assert_eq!(parse_wait("forever"), Ok(Wait::Forever));
        assert_eq!(parse_wait("0s"), Ok(Wait::No));
        assert_eq!(parse_max_hold("forever"), Ok(MaxHold::Unlimited));
        assert!(parse_wait("soon").unwrap_err().contains("forever"));
    }
}
