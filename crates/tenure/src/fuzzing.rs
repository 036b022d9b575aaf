//! The fuzz targets: whatever reads bytes or text that others wrote. Only built for the fuzzer
//! (`fuzz/`) and for tests, which give each of them a short run.

use tenure_core::MaxTtl;

pub use crate::config::fuzzing::{config, url};
pub use crate::node::fuzzing::replies as resp;
use crate::{Handover, LeaseToken, Options};

#[cfg(test)]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

/// Reads the text as a lease token, and as a handover.
///
/// # Panics
/// If one is misread, or promises more than its ttl.
pub fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(token) = text.parse::<LeaseToken>() {
        assert_eq!(token.to_string().parse().as_ref(), Ok(&token), "written and read again");
        let (left, _) = token.promised();
        assert!(left <= token.ttl(), "{left:?} of {:?}", token.ttl());
        let handover = token.handover("a, b\u{e9}%", token.ttl());
        reads_back(&handover);
        let again = LeaseToken::of(&handover);
        assert_eq!((again.fence(), again.extends()), (token.fence(), token.extends()));
    }
    if let Ok(handover) = text.parse::<Handover>() {
        reads_back(&handover);
    }
}

fn reads_back(handover: &Handover) {
    assert_eq!(handover.to_string().parse().as_ref(), Ok(handover), "written and read again");
    let mut options = Options::default();
    (options.ttl, options.max_hold, options.at_least) = (handover.ttl, handover.max_hold, handover.at_least);
    let _ = options.check(MaxTtl::default());
}

#[cfg(test)]
mod tests {
    use super::smoke;

    #[test]
    fn replies_of_servers_survive_a_short_fuzz_run() {
        smoke::run("resp", super::resp);
    }

    #[test]
    fn node_urls_survive_a_short_fuzz_run() {
        smoke::run("url", super::url);
    }

    #[test]
    fn tokens_survive_a_short_fuzz_run() {
        smoke::run("token", super::token);
    }

    #[test]
    fn settings_survive_a_short_fuzz_run() {
        smoke::run("config", super::config);
    }
}
