//! One driver: a process that uses a lock library as its own programs would. It does what a line
//! tells it, and answers with a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use tenure_testkit::nursery;

/// How long a driver may take to start: a virtual machine on a busy computer takes seconds.
const START: Duration = Duration::from_secs(60);

/// How long an order may take that waits for nobody.
const AT_ONCE: Duration = Duration::from_secs(30);

/// So much of what a driver complained about is shown.
const COMPLAINT: usize = 400;

/// Its process ends when this is dropped, or when this process goes.
pub(crate) struct Driver {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    complaint: Arc<Mutex<String>>,
    /// Which version of its library it has.
    pub(crate) version: String,
}

/// What a driver said.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Whether it could do it: it has the lock, it had it until it released it, and so on.
    pub(crate) ok: bool,
    /// When it began, by the machine's monotonic clock.
    pub(crate) begun: Duration,
    /// When it was done.
    pub(crate) ended: Duration,
    fields: Value,
}

impl Driver {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start: with its last words.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = nursery::spawn(command).context("the driver cannot be started")?;
        let input = child.stdin.take().context("a pipe")?;
        let output = child.stdout.take().context("a pipe")?;
        let errors = child.stderr.take().context("a pipe")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let complaint = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&complaint);
        std::thread::spawn(move || keep(errors, &kept));
        let mut driver = Self { child, input, lines, complaint, version: String::new() };
        let ready = driver.line(START)?;
        let ready: Value = serde_json::from_str(&ready)
            .with_context(|| format!("it says {ready:?} instead of \"ready\""))?;
        driver.version = ready["version"].as_str().unwrap_or("unknown").to_owned();
        Ok(driver)
    }

    /// Tells it to do something; [`Driver::hear`] has its answer.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn say(&mut self, order: &str) -> Result<()> {
        writeln!(self.input, "{order}").map_err(|error| self.gone().context(error))
    }

    /// Waits for its answer.
    ///
    /// # Errors
    /// If none comes in this time, or it is gone.
    pub(crate) fn hear(&mut self, limit: Duration) -> Result<Answer> {
        let line = self.line(limit)?;
        let fields: Value =
            serde_json::from_str(&line).with_context(|| format!("not an answer: {line:?}"))?;
        let time = |name: &str| {
            let nanos = fields[name].as_u64().with_context(|| format!("no time {name:?}: {line:?}"))?;
            anyhow::Ok(Duration::from_nanos(nanos))
        };
        let ok = fields["ok"].as_bool().with_context(|| format!("not an answer: {line:?}"))?;
        Ok(Answer { ok, begun: time("begun")?, ended: time("ended")?, fields })
    }

    /// Tells it to do something that takes no time.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn ask(&mut self, order: &str) -> Result<Answer> {
        self.say(order)?;
        self.hear(AT_ONCE).with_context(|| format!("at {order:?}"))
    }

    /// The same, and it must succeed.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn must(&mut self, order: &str) -> Result<Answer> {
        let answer = self.ask(order)?;
        ensure!(answer.ok, "{order:?} failed: {}", answer.error());
        Ok(answer)
    }

    /// The same, and it must be refused.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn must_not(&mut self, order: &str) -> Result<Answer> {
        let answer = self.ask(order)?;
        ensure!(!answer.ok, "{order:?} succeeded");
        Ok(answer)
    }

    /// Waits for its answer, which must be a success.
    ///
    /// # Errors
    /// If it is not, or does not come in this time.
    pub(crate) fn succeeds(&mut self, limit: Duration) -> Result<Answer> {
        let answer = self.hear(limit)?;
        ensure!(answer.ok, "it failed: {}", answer.error());
        Ok(answer)
    }

    /// Its process.
    #[must_use]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL: when that was, by the machine's monotonic clock.
    pub(crate) fn kill(&mut self) -> Duration {
        let _ = self.child.kill();
        let _ = self.child.wait();
        now()
    }

    fn line(&self, limit: Duration) -> Result<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("stuck: no answer within {limit:.1?}"),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Its end, with its last words.
    fn gone(&self) -> anyhow::Error {
        // What it complained about may still be on its way.
        std::thread::sleep(Duration::from_millis(100));
        let complaint = self.complaint.lock().map(|text| text.trim().to_owned()).unwrap_or_default();
        anyhow!("the driver ended: {}", complaint.lines().collect::<Vec<_>>().join(" | "))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Answer {
    /// What went wrong, or nothing.
    #[must_use]
    pub(crate) fn error(&self) -> &str {
        self.fields["error"].as_str().unwrap_or("no reason given")
    }

    /// A number that it has.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        self.fields[name].as_u64().with_context(|| format!("no number {name:?} in {}", self.fields))
    }

    /// Whether it says so.
    #[must_use]
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.fields[name] == true
    }

    /// A text that it has.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.fields[name].as_str().with_context(|| format!("no text {name:?} in {}", self.fields))
    }
}

/// The machine's monotonic clock, which all drivers read.
#[must_use]
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Waits until this is so.
///
/// # Errors
/// If it is not within this time.
pub(crate) fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + limit;
    while !is_so() {
        ensure!(Instant::now() < end, "not within {limit:.1?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Keeps the first words of a complaint: they say what went wrong.
fn keep(mut errors: impl Read, kept: &Mutex<String>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut bytes) {
        let Ok(mut text) = kept.lock() else { return };
        let room = COMPLAINT.saturating_sub(text.chars().count());
        text.extend(String::from_utf8_lossy(&bytes[..count]).chars().take(room));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Driver> {
        let mut command = nursery::command("sh");
        command.args(["-c", script]);
        Driver::start(command)
    }

    #[test]
    fn a_driver_that_dies_or_talks_nonsense_is_an_error_with_its_last_words() {
        let error = shell("echo no such module >&2; exit 3").map(|_| ()).unwrap_err();
        assert!(format!("{error:#}").contains("no such module"), "{error:#}");
        let error = shell("echo hello").map(|_| ()).unwrap_err();
        assert!(format!("{error:#}").contains("hello"), "{error:#}");
    }

    #[test]
    fn an_answer_is_read_and_a_missing_one_is_noticed() {
        let mut driver = shell(
            r#"echo '{"ready":true,"version":"1.2"}'; read x; echo '{"ok":false,"error":"taken","begun":5,"ended":9}'; sleep 60"#,
        )
        .unwrap();
        assert_eq!(driver.version, "1.2");
        let answer = driver.must_not("try a 1").unwrap();
        assert_eq!((answer.error(), answer.ended), ("taken", Duration::from_nanos(9)));
        assert!(answer.number("done").is_err());
        let error = driver.hear(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("stuck"), "{error}");
    }
}
