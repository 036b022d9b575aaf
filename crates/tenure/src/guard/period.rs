//! What a handover says of a lock that is kept from others for a period.

use std::fmt;
use std::time::Duration;

use tenure_core::NodeTime;

use super::handover::Handover;

/// For how long, and by when it was acquired, by the latest of the nodes' clocks, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) at_least: Duration,
    pub(super) granted_by: Option<NodeTime>,
}

impl Period {
    pub(super) const fn of(handover: &Handover) -> Option<Self> {
        let Handover { at_least, granted_by, .. } = *handover;
        if at_least.is_zero() { None } else { Some(Self { at_least, granted_by }) }
    }

    /// As it was written, with numbers of this base. None is written as 0, too. Older versions
    /// wrote only for how long. `None` if it is damaged.
    pub(super) fn read(text: &str, base: u32) -> Option<Option<Self>> {
        let number = |text| u64::from_str_radix(text, base).ok();
        let (at_least, granted_by) = match text.split_once('-') {
            Some((at_least, granted_by)) => (at_least, Some(NodeTime::from_micros(number(granted_by)?))),
            None => (text, None),
        };
        let at_least = Duration::from_millis(number(at_least)?);
        Some((!at_least.is_zero()).then_some(Self { at_least, granted_by }))
    }

    /// In whole milliseconds, and no less than it is.
    fn at_least_ms(self) -> u64 {
        u64::try_from(self.at_least.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    fn granted_by_us(self) -> Option<u64> {
        self.granted_by.map(NodeTime::as_micros)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at_least_ms())?;
        self.granted_by_us().map_or(Ok(()), |granted_by_us| write!(f, "-{granted_by_us}"))
    }
}

impl fmt::LowerHex for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.at_least_ms())?;
        self.granted_by_us().map_or(Ok(()), |granted_by_us| write!(f, "-{granted_by_us:x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_read_as_it_was_written_also_by_an_older_version() {
        let (at_least, granted_by) =
            (Duration::from_secs(50), Some(NodeTime::from_micros(1_700_000_000_000_000)));
        let period = Period { at_least, granted_by };
        assert_eq!(Period::read(&period.to_string(), 10), Some(Some(period)));
        assert_eq!(Period::read(&format!("{period:x}"), 16), Some(Some(period)));
        assert_eq!(Period::read("50000", 10), Some(Some(Period { at_least, granted_by: None })));
        assert_eq!(Period::read("0", 10), Some(None));
        for damaged in ["", "-", "50-", "-50", "50-5-5", "x"] {
            assert_eq!(Period::read(damaged, 10), None, "{damaged}");
        }
    }

    #[test]
    fn a_part_of_a_millisecond_is_not_cut_off() {
        let period = Period { at_least: Duration::from_micros(1_001), granted_by: None };
        assert_eq!(period.to_string(), "2");
    }
}
