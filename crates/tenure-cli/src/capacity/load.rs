//! The load that a plan is made for.

use std::time::Duration;

use tenure::NODES_MAX;

/// How many locks there are in all, and how they are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Acquired and released per second.
    pub(crate) per_second: f64,
    /// Held at a time.
    pub(crate) held: f64,
    /// Waiting in line at a time.
    pub(crate) waiters: f64,
    /// Different names within the time for which fences are remembered.
    pub(crate) names: f64,
    /// Programs that are connected.
    pub(crate) clients: f64,
    pub(crate) ttl: Duration,
    /// The largest ttl that any client may ask for.
    pub(crate) max_ttl: Duration,
    /// Nodes of a fleet.
    pub(crate) nodes: usize,
    /// To the node whose vote makes the majority.
    pub(crate) round_trip: Duration,
    /// Cores for each node's server.
    pub(crate) cores: f64,
}

impl Load {
    /// What makes no sense, in words that name the flag.
    pub(crate) fn check(self) -> Result<Self, String> {
        let amount = |flag: &str, value: f64, least: f64| {
            let is_wrong = !value.is_finite() || value < least || value > 1e15;
            is_wrong.then(|| format!("--{flag} {value}: expected a number from {least} to 1e15"))
        };
        let problem = [
            amount("locks-per-second", self.per_second, 0.001),
            amount("held", self.held, 0.0),
            amount("waiters", self.waiters, 0.0),
            amount("names", self.names, 1.0),
            amount("clients", self.clients, 1.0),
            amount("cores", self.cores, 0.01),
        ];
        if let Some(problem) = problem.into_iter().flatten().next() {
            return Err(problem);
        }
        if !(1..=NODES_MAX).contains(&self.nodes) {
            return Err(format!("--nodes {}: expected 1 to {NODES_MAX} nodes", self.nodes));
        }
        if self.round_trip.is_zero() || self.ttl.is_zero() {
            return Err("--rtt and --ttl: expected more than 0".to_owned());
        }
        if self.round_trip.saturating_mul(20) > self.ttl {
            return Err(format!(
                "--ttl {:?} is too short for a round trip of {:?}: renewals need a ttl of at least 20 round trips",
                self.ttl, self.round_trip
            ));
        }
        Ok(self)
    }
}

/// A number as people type it: `1500`, `20k`, `1M`, `1_000_000`.
pub(crate) fn parse_amount(text: &str) -> Result<f64, String> {
    let plain = text.replace('_', "");
    let (digits, factor) = match plain.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if plain.ends_with('k') => (digits, 1e3),
        Some(digits) if plain.ends_with('M') => (digits, 1e6),
        Some(digits) => (digits, 1e9),
        None => (plain.as_str(), 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number * factor),
        _ => Err("expected a number such as 1500, 20k or 1M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, number) in
            [("1500", 1_500.0), ("20k", 20_000.0), ("1.5M", 1_500_000.0), ("1_000", 1_000.0)]
        {
            assert_eq!(parse_amount(text).map(f64::to_bits), Ok(f64::to_bits(number)), "{text}");
        }
        for text in ["", "k", "-1", "nan", "inf", "1kk", "1 000", "many"] {
            assert!(parse_amount(text).is_err(), "{text}");
        }
    }
}
