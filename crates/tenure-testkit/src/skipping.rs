//! Tests that cannot run everywhere.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

/// Says that the test on this thread cannot be run here, and why. `cargo xtask test` names it in
/// its summary, from the file that `TENURE_TEST_SKIPS` names.
pub fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let Some(file) = std::env::var_os("TENURE_TEST_SKIPS") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
}

/// Another program, if it is installed. Otherwise the test cannot be run here.
#[must_use]
pub fn installed(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{program} is not installed"));
    }
    found.map(Command::new)
}
