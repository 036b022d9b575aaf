//! Tests that cannot run everywhere.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that the test on this thread cannot be run here, and why. `cargo xtask test` names it in
/// its summary, from the file that `TENURE_TEST_SKIPS` names.
pub fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let Some(file) = std::env::var_os("TENURE_TEST_SKIPS") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
}
