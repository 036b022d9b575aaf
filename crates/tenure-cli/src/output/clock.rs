//! Moments as people read them: by the clock on their wall.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A moment in milliseconds since 1970: `23:40:43`, and with its date if that is not today's. The
/// zone is the one of `TZ` or of the machine.
pub(super) fn time(at_ms: u64) -> String {
    time_in(&TimeZone::system(), Timestamp::now(), at_ms)
}

fn time_in(zone: &TimeZone, now: Timestamp, at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    // Nothing that is shown is so far away.
    let Some(at) = at else { return "an unknown time".to_owned() };
    let (at, now) = (at.to_zoned(zone.clone()), now.to_zoned(zone.clone()));
    let form = if same_day(&at, &now) { "%H:%M:%S" } else { "%b %-d %H:%M:%S" };
    at.strftime(form).to_string()
}

fn same_day(one: &Zoned, other: &Zoned) -> bool {
    one.date() == other.date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_another_day_has_its_date() {
        let zone = TimeZone::posix("CET-1").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let shown = |text: &str| {
            let at_ms = u64::try_from(at(text).as_millisecond()).unwrap();
            time_in(&zone, at("2026-11-16T21:00:00Z"), at_ms)
        };
        assert_eq!(shown("2026-11-16T22:59:59Z"), "23:59:59");
        assert_eq!(shown("2026-11-16T23:00:01Z"), "Nov 17 00:00:01");
        assert_eq!(time_in(&zone, at("2026-11-16T21:00:00Z"), u64::MAX), "an unknown time");
    }
}
