//! Tests that cannot run everywhere.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
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
    let found = on_path(Path::new(program));
    if found.is_none() {
        skip(&format!("{program} is not installed"));
    }
    found.map(Command::new)
}

/// Fails if the program is not there; `cargo xtask test` takes it for a skipped test then.
///
/// # Panics
/// If it is not there.
pub fn require(program: impl AsRef<Path>) {
    let program = program.as_ref();
    if !program.is_file() && on_path(program).is_none() {
        let reason = format!("{} is not installed", program.display());
        skip(&reason);
        panic!("{reason}");
    }
}

/// Where it is, if it can be started by its name.
pub(crate) fn on_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|program| program.is_file())
}
