//! One driver: a process that uses a peer as its own programs would, and says what came of it.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tenure_testkit::nursery;

use super::protocol::{Done, Hold, Job, Kind, Names};

/// So much of what a driver complained about is shown.
const COMPLAINT: usize = 400;

/// Its process ends when this is dropped, or when this process goes.
pub(crate) struct Driver {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    complaint: Arc<Mutex<String>>,
    started: Instant,
}

/// How long it took to the first lock: from the beginning of the client, and of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) client: Duration,
    pub(crate) process: Duration,
}

/// What it has done, and the CPU time that took.
pub(crate) struct Outcome {
    pub(crate) done: Done,
    pub(crate) cpu: Duration,
}

impl Driver {
    /// Starts it; [`Driver::ready`] tells when it can work.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
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
        Ok(Self { child, input, lines, complaint, started })
    }

    /// Waits for its first lock.
    pub(crate) fn ready(&self, limit: Duration) -> Result<Ready> {
        let line = self.line(Instant::now() + limit, limit).context("it has no first lock")?;
        let nanos = line.strip_prefix("ready ").and_then(|nanos| nanos.parse().ok());
        let nanos = nanos.with_context(|| format!("it says {line:?} instead of \"ready\""))?;
        Ok(Ready { client: Duration::from_nanos(nanos), process: self.started.elapsed() })
    }

    /// Puts it to work.
    pub(crate) fn send(&mut self, job: &Job) -> Result<()> {
        writeln!(self.input, "{job}").map_err(|error| self.gone().context(error))
    }

    /// Waits until the work is done.
    pub(crate) fn outcome(&self, limit: Duration) -> Result<Outcome> {
        let deadline = Instant::now() + limit;
        let mut holds = vec![];
        loop {
            let line = self.line(deadline, limit)?;
            if line.starts_with('{') {
                let (mut done, cpu) = parse_report(&line)?;
                done.holds = holds;
                return Ok(Outcome { done, cpu });
            }
            holds.push(parse_hold(&line)?);
        }
    }

    fn line(&self, deadline: Instant, limit: Duration) -> Result<String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

/// `task called acquired released finished`, times in nanoseconds.
fn parse_hold(line: &str) -> Result<Hold> {
    let numbers: Vec<u64> = line.split(' ').map_while(|number| number.parse().ok()).collect();
    let [task, called, acquired, released, finished] = numbers[..] else {
        bail!("not a hold: {line:?}");
    };
    anyhow::ensure!(
        called <= acquired && acquired <= released && released <= finished,
        "time runs back: {line:?}"
    );
    Ok(Hold { task: usize::try_from(task)?, called, acquired, released, finished })
}

/// The line that ends a job.
fn parse_report(line: &str) -> Result<(Done, Duration)> {
    let report: serde_json::Value =
        serde_json::from_str(line).with_context(|| format!("not a report: {line:?}"))?;
    let number = |name: &str| {
        report[name].as_u64().with_context(|| format!("a report without a number {name:?}: {line:?}"))
    };
    let done = Done {
        failed: usize::try_from(number("failed")?)?,
        renewals: usize::try_from(number("renewals")?)?,
        error: report["error"].as_str().filter(|error| !error.is_empty()).map(str::to_owned),
        ..Done::default()
    };
    Ok((done, Duration::from_micros(number("cpu_us")?)))
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, prefix, locks, .. } = self;
        let kind = match self.kind {
            Kind::Work => "work",
            Kind::Hold => "hold",
        };
        let names = match self.names {
            Names::Once => "once",
            Names::Reused => "reused",
            Names::Shared => "shared",
        };
        let (seconds, hold_ms) = (self.time.as_secs_f64(), self.hold.as_millis());
        write!(
            f,
            "{kind} tasks={tasks} names={names} prefix={prefix} seconds={seconds} hold_ms={hold_ms} locks={locks}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_understood_as_it_was_meant() {
        let line = "work tasks=64 names=once prefix=r0 seconds=0.5 hold_ms=5 locks=0";
        let job = Job::parse(line).unwrap();
        assert_eq!(job.to_string(), line);
        assert_eq!(job.name(3, 7), "r0:3:7");
        for wrong in ["", "rest tasks=1", "work tasks=x", "work tasks", &line.replace("once", "twice")] {
            assert!(Job::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_report_is_read() {
        let line = r#"{"cpu_us":1500,"failed":2,"renewals":0,"error":"no \"quorum\""}"#;
        let (done, cpu) = parse_report(line).unwrap();
        assert_eq!((done.failed, done.error.as_deref()), (2, Some(r#"no "quorum""#)));
        assert_eq!(cpu, Duration::from_micros(1_500));
        assert!(parse_report(r#"{"failed":2}"#).is_err());
        assert!(parse_report("{").is_err());
    }

    #[test]
    fn a_hold_is_five_numbers_in_order() {
        let hold = parse_hold("3 10 20 30 40").unwrap();
        assert_eq!((hold.task, hold.called, hold.finished), (3, 10, 40));
        for wrong in ["3 10 20 30", "3 10 20 30 x", "3 20 10 30 40", "panic!"] {
            assert!(parse_hold(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_driver_that_dies_or_hangs_is_an_error_with_its_last_words() {
        let shell = |script: &str| {
            let mut command = nursery::command("sh");
            command.args(["-c", script]);
            Driver::start(command).unwrap()
        };
        let error = shell("echo no such module >&2; exit 3").ready(Duration::from_secs(10)).unwrap_err();
        assert!(format!("{error:#}").contains("no such module"), "{error:#}");
        let error = shell("sleep 60").ready(Duration::from_millis(50)).unwrap_err();
        assert!(format!("{error:#}").contains("stuck"), "{error:#}");
        let ready = shell("echo ready 5000").ready(Duration::from_secs(10)).unwrap();
        assert_eq!(ready.client, Duration::from_micros(5));
    }
}
