//! A wall clock that can be moved, for one process at a time.
//!
//! A lock expires on a server by that server's wall clock, so a test has to be able to step it, to
//! make it run fast and to stop it, without touching the clock of the machine. A small library,
//! `clock_preload.c`, takes the place of libc's functions that read the wall clock; `libfaketime`
//! does more and hangs in a `redis-server` with jemalloc. It shows
//!
//! ```text
//! shown = shown_ns + (real - real_ns) * rate
//! ```
//!
//! and finds the three numbers in a file that the test goes on writing: see there for how it never
//! reads half a change.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use tempfile::TempDir;

/// The wall clock of one process under test.
///
/// It is read by programs that ask libc, with `gettimeofday`, `time` or `clock_gettime`: C and Rust
/// do, Go does not. Monotonic clocks stay as they are, and so do timers and deadlines that the
/// kernel watches over.
///
/// A clone is another handle on the same clock. The process must not be started after the last
/// handle is gone.
#[derive(Clone, Debug)]
pub struct MovedClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Holds the library and the settings.
    folder: TempDir,
    settings: Mutex<Settings>,
}

/// What the process reads, as the test last wrote it.
#[derive(Debug)]
struct Settings {
    file: File,
    /// How often it was written. The lowest bit says which of the two readings counts.
    sequence: u64,
    reading: Reading,
}

/// From when on the clock shows what, and how fast it runs.
#[derive(Clone, Copy, Debug)]
struct Reading {
    real_ns: i64,
    shown_ns: i64,
    rate: f64,
}

impl MovedClock {
    /// A clock that shows the right time.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LIBRARY), library()).unwrap();
        let file = File::create_new(folder.path().join(SETTINGS)).unwrap();
        // The process maps all of it, the reading that is not written yet as well.
        file.set_len(SETTINGS_LEN).unwrap();
        let mut settings = Settings { file, sequence: 0, reading: Reading::right(real_ns()) };
        settings.write(settings.reading);
        Self(Arc::new(Shared { folder, settings: Mutex::new(settings) }))
    }

    /// What a process that is to have this clock needs in its environment, for [`Command::envs`].
    /// Its children inherit the clock.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let folder = self.0.folder.path();
        [("LD_PRELOAD", folder.join(LIBRARY).into()), ("TENURE_CLOCK_FILE", folder.join(SETTINGS).into())]
    }

    /// Moves it by so much, forward or back. It runs on at the rate it had.
    pub fn step(&self, by_ms: i64) {
        self.change(|now| Reading { shown_ns: now.shown_ns + by_ms * NS_PER_MS, ..now });
    }

    /// Makes it run so many times as fast as it should, from the time it shows: 1.08 is 8 % fast.
    pub fn set_rate(&self, rate: f64) {
        assert!(rate.is_finite(), "a clock cannot run at a rate of {rate}");
        self.change(|now| Reading { rate, ..now });
    }

    /// Stops it at the time it shows.
    pub fn freeze(&self) {
        self.set_rate(0.0);
    }

    /// Makes it show the right time again, at the right rate.
    pub fn correct(&self) {
        self.change(|now| Reading::right(now.real_ns));
    }

    /// How far it is ahead of the right time, now; negative if it is behind.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        let now = self.settings().reading.at(real_ns());
        (now.shown_ns - now.real_ns) / NS_PER_MS
    }

    fn change(&self, change: impl FnOnce(Reading) -> Reading) {
        let mut settings = self.settings();
        let now = settings.reading.at(real_ns());
        settings.write(change(now));
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MovedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// Fills in the reading that does not count, then lets it count.
    fn write(&mut self, reading: Reading) {
        let sequence = self.sequence + 1;
        let bytes =
            [reading.real_ns.to_ne_bytes(), reading.shown_ns.to_ne_bytes(), reading.rate.to_ne_bytes()]
                .concat();
        self.file.write_all_at(&bytes, SEQUENCE_LEN + (sequence & 1) * READING_LEN).unwrap();
        self.file.write_all_at(&sequence.to_ne_bytes(), 0).unwrap();
        (self.sequence, self.reading) = (sequence, reading);
    }
}

impl Reading {
    const fn right(real_ns: i64) -> Self {
        Self { real_ns, shown_ns: real_ns, rate: 1.0 }
    }

    /// The same clock, told from another moment: the arithmetic of the library.
    #[expect(clippy::cast_possible_truncation, reason = "a test does not last for centuries")]
    fn at(self, real_ns: i64) -> Self {
        let passed_ns = ((real_ns - self.real_ns) as f64 * self.rate) as i64;
        Self { real_ns, shown_ns: self.shown_ns + passed_ns, rate: self.rate }
    }
}

const NS_PER_MS: i64 = 1_000_000;

const LIBRARY: &str = "clock_preload.so";
const SETTINGS: &str = "clock";

/// The file is a sequence number and two readings, as `struct settings` in the library has them.
const SEQUENCE_LEN: u64 = 8;
const READING_LEN: u64 = 24;
const SETTINGS_LEN: u64 = SEQUENCE_LEN + 2 * READING_LEN;

fn real_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_nanos()).expect("it is before 2262")
}

/// The library, built once in this process. Its bytes and not its path: nothing would remove the
/// file at the end.
fn library() -> &'static [u8] {
    static LIBRARY_BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY_BYTES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LIBRARY);
        compile(&path);
        std::fs::read(path).unwrap()
    })
}

fn compile(library: &Path) {
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-x", "c", "-", "-o"])
        .arg(library)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("moving a clock needs a C compiler, and cc cannot be run ({error}): install gcc or clang")
        });
    // A compiler that ends before it has read everything says why below.
    let _ = compiler.stdin.take().expect("it is piped").write_all(include_bytes!("clock_preload.c"));
    let output = compiler.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc cannot build clock_preload.c:\n{complaints}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const READINGS: u32 = 5_000_000;
    const MINUTE_NS: i64 = 60_000 * NS_PER_MS;
    const HOUR_NS: i64 = 60 * MINUTE_NS;

    /// Tells the process that this test starts when the test began.
    const BEGAN: &str = "TENURE_TEST_BEGAN_NS";

    /// The test starts itself again, as the process that reads the clock. The two settings have no
    /// number in common, so a mixture of them shows another time; each is written twice in turn, so
    /// that both readings change.
    #[test]
    fn half_a_change_is_never_read() {
        if let Ok(began_ns) = std::env::var(BEGAN) {
            return read_often(began_ns.parse().unwrap());
        }
        let clock = MovedClock::new();
        let began_ns = real_ns();
        let mut reader = Command::new(std::env::current_exe().unwrap())
            .args(["half_a_change_is_never_read", "--nocapture"])
            .envs(clock.environment())
            .env(BEGAN, began_ns.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let right = Reading::right(0);
        let frozen = Reading { real_ns: began_ns, shown_ns: began_ns + HOUR_NS, rate: 0.0 };
        let status = loop {
            for reading in [right, right, frozen, frozen] {
                clock.settings().write(reading);
            }
            if let Some(status) = reader.try_wait().unwrap() {
                break status;
            }
        };
        assert!(status.success());
    }

    fn read_often(began_ns: i64) {
        let (mut times_right, mut times_frozen) = (0, 0);
        for _ in 0..READINGS {
            let shown_ns = real_ns();
            if shown_ns == began_ns + HOUR_NS {
                times_frozen += 1;
            } else {
                assert!((began_ns..began_ns + MINUTE_NS).contains(&shown_ns), "{shown_ns} is neither");
                times_right += 1;
            }
        }
        assert!(
            times_right > 0 && times_frozen > 0,
            "{times_right} times right, {times_frozen} times frozen"
        );
    }
}
