//! What is done against a holder's will: who did it, to which lock, and why.
//!
//! A first line is on disk before the nodes are asked; if it cannot be written, nothing is done. A
//! second one says what came of it. Without a second one the instance ended in between, or its
//! client went away: the act may have been done.

use std::future::Future;
use std::io;

use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{LogFile, now};
use crate::caller::Caller;
use crate::problem::{Kind, Problem};

/// The log of such acts.
#[derive(Debug)]
pub(crate) struct AuditLog(LogFile);

/// What is about to be done.
#[derive(Debug)]
pub(crate) struct Act<'a> {
    /// Who asked for it.
    pub(crate) caller: &'a Caller,
    /// With which call.
    pub(crate) call: &'static str,
    /// To which lock.
    pub(crate) name: &'a str,
    /// What else was said: the holder, the reason.
    pub(crate) facts: Value,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    caller: &'a str,
    call: &'static str,
    name: &'a str,
    /// `begun`, `done`, or the type of the problem.
    outcome: &'a str,
    #[serde(flatten)]
    facts: &'a Value,
}

impl AuditLog {
    pub(crate) const fn new(file: LogFile) -> Self {
        Self(file)
    }

    /// Does it, with a line before and one after.
    ///
    /// # Errors
    /// Those of the work; or that the first line could not be written, and nothing was done.
    pub(crate) async fn keep<T>(
        &self,
        act: &Act<'_>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.write(act, "begun").await.map_err(|error| {
            Problem::new(
                Kind::NotAudited,
                format!("nothing was released: cannot write the audit log: {error}"),
            )
        })?;
        let done = work.await;
        let outcome = done.as_ref().map_or_else(|problem| problem.kind().name(), |_| "done");
        // It has been done, and the first line says by whom.
        let _ = self.write(act, outcome).await;
        done
    }

    async fn write(&self, act: &Act<'_>, outcome: &str) -> io::Result<()> {
        let Act { caller, call, name, facts } = act;
        let (id, caller) = (caller.record().id(), caller.name());
        let line = Line { time: now(), id, caller, call, name, outcome, facts };
        let line = format!("{}\n", serde_json::to_string(&line)?);
        let file = self.0.clone();
        spawn_blocking(move || file.append_durably(&line)).await?
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    async fn keep(path: &Path, work: impl Future<Output = Result<u8, Problem>>) -> Result<u8, Kind> {
        let log = AuditLog::new(LogFile::open(path).unwrap());
        let caller = Caller::anybody();
        let facts = json!({ "holder": "h", "reason": "it hangs\n" });
        let act = Act { caller: &caller, call: "/v1/force-release", name: "x", facts };
        log.keep(&act, work).await.map_err(|problem| problem.kind())
    }

    #[tokio::test]
    async fn there_is_a_line_before_and_one_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let lines = || -> Vec<Value> {
            let text = fs::read_to_string(&path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let work = async {
            let begun = lines();
            assert_eq!((begun.len(), &begun[0]["outcome"]), (1, &json!("begun")));
            Ok(7)
        };
        assert_eq!(keep(&path, work).await, Ok(7));
        let refused = async { Err(Problem::new(Kind::NotHeld, "no longer")) };
        assert_eq!(keep(&path, refused).await, Err(Kind::NotHeld));
        let lines = lines();
        let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["begun", "done", "begun", "not-held"]);
        assert_eq!(lines[0]["id"], lines[1]["id"]);
        for line in lines {
            let said = (&line["name"], &line["holder"], &line["reason"], &line["call"]);
            assert_eq!(said, (&json!("x"), &json!("h"), &json!("it hangs\n"), &json!("/v1/force-release")));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_done() {
        let work = async { panic!("it was done") };
        assert_eq!(keep(Path::new("/dev/full"), work).await, Err(Kind::NotAudited));
    }
}
