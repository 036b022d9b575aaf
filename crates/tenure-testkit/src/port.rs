//! Ports that nobody else uses, nor has used just now.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// For so long nobody listens on a port again. Clients of a test that is over may still look for
/// their nodes there, and would take a stranger's for one of theirs that was emptied.
const REST: Duration = Duration::from_secs(120);

/// A loopback port, which other tests leave alone as long as this lives and a while longer.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Locked as long as it is open, and its time is when the port was last used.
    claim: Option<File>,
}

impl Port {
    /// One that is free.
    #[must_use]
    pub fn claim() -> Self {
        let user = rustix::process::getuid().as_raw();
        let folder = std::env::temp_dir().join(format!("tenure-test-ports-{user}"));
        let _ = fs::create_dir(&folder);
        loop {
            let number = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let path = folder.join(number.to_string());
            if !is_rested(&path) {
                continue;
            }
            let Ok(file) = File::create(&path) else { return Self { number, claim: None } };
            if file.try_lock().is_ok() {
                return Self { number, claim: Some(file) };
            }
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.claim.iter().for_each(|claim| {
            let _ = claim.set_modified(SystemTime::now());
        });
    }
}

fn is_rested(claim: &Path) -> bool {
    let used = fs::metadata(claim).and_then(|claim| claim.modified());
    used.map_or(true, |used| used.elapsed().is_ok_and(|age| age > REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_rests_after_its_use() {
        let folder = tempfile::tempdir().unwrap();
        let claim = folder.path().join("1");
        assert!(is_rested(&claim), "never used");
        let file = File::create(&claim).unwrap();
        assert!(!is_rested(&claim), "just used");
        file.set_modified(SystemTime::now() - REST * 2).unwrap();
        assert!(is_rested(&claim));
    }
}
