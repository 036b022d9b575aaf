//! A worker process: takes the lock, reads the file, adds its name, writes it back.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tenure::fenced::{FencedFile, FencedFileClaim, FencedFileError};
use tenure::{Guard, Locks};

/// Short, so that nobody has to wait for the end of a paused holder's lock.
pub(crate) const TTL: Duration = Duration::from_millis(500);

/// No single step of the play takes longer than this, or it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The variable that makes a process a worker.
pub(crate) const TASK: &str = "TENURE_FENCING_WORKER";

/// The file that the lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Anybody may write it at any time.
    Plain,
    /// Refuses all but the last holder.
    Fenced,
}

/// Who the worker is and what it works on.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) resource: Resource,
    /// Where `list`, the file, and `events`, what the workers tell, are; and `write`, once they may
    /// write.
    pub(crate) folder: PathBuf,
    pub(crate) urls: Vec<String>,
}

impl Task {
    /// What this process was started for, if it is a worker.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(TASK).ok()?;
        let mut parts = text.split('\n').map(str::to_owned);
        let (name, resource, folder) = (parts.next()?, parts.next()?, parts.next()?.into());
        let resource = if resource == "fenced" { Resource::Fenced } else { Resource::Plain };
        Some(Self { name, resource, folder, urls: parts.collect() })
    }

    /// The same as the value of the variable.
    pub(crate) fn to_text(&self) -> String {
        let resource = if self.resource == Resource::Fenced { "fenced" } else { "plain" };
        [&self.name, resource, &self.folder.display().to_string(), &self.urls.join("\n")].join("\n")
    }

    /// Does the work.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let locks = Locks::connect(&self.urls).await?;
            while !self.update(&locks).await? {}
            locks.shutdown().await?;
            Ok(())
        })
    }

    /// One read-modify-write under the lock; false if the file refused it.
    async fn update(&self, locks: &Locks) -> Result<bool, Box<dyn Error>> {
        let guard = locks.lock("list").ttl(TTL).wait(PATIENCE).acquire().await?;
        let file = Handle::open(self, &guard)?;
        let mut names = file.read()?;
        // As careful as one can be without fences: look at the lock right before the write. The
        // pause comes after that.
        if !guard.is_valid() {
            self.tell("finds that its lock is over, and starts again")?;
            return Ok(false);
        }
        self.tell(&format!("has the lock with fence {} and has read {names:?}", guard.fence()))?;
        names.push(self.name.clone());
        self.wait_until_it_may_write()?;
        match file.write(&names) {
            Ok(()) => self.tell(&format!("has written {names:?}"))?,
            Err(error) if is_stale(error.as_ref()) => {
                self.tell(&format!("is refused ({}), and starts again", stale_fences(error.as_ref())))?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        // Of a lock that is over nothing is left to release.
        let _ = guard.release().await;
        Ok(true)
    }

    fn tell(&self, event: &str) -> Result<(), Box<dyn Error>> {
        let mut events = OpenOptions::new().create(true).append(true).open(self.folder.join("events"))?;
        Ok(events.write_all(format!("{} {event}\n", self.name).as_bytes())?)
    }

    /// Stands for whatever keeps a process busy between its last check and its write: a page fault,
    /// a collector of garbage, a scheduler. It ends when the play wants it to, so that the pause
    /// surely comes in between.
    fn wait_until_it_may_write(&self) -> Result<(), Box<dyn Error>> {
        let (start, sign) = (Instant::now(), self.folder.join("write"));
        while !sign.exists() {
            if start.elapsed() > PATIENCE {
                return Err("nobody said that it may write".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// The file as a worker uses it.
enum Handle {
    Plain(PathBuf),
    Fenced(FencedFileClaim),
}

impl Handle {
    fn open(task: &Task, guard: &Guard) -> Result<Self, Box<dyn Error>> {
        let path = task.folder.join("list");
        Ok(match task.resource {
            Resource::Plain => Self::Plain(path),
            // Before anything is read.
            Resource::Fenced => Self::Fenced(FencedFile::new(path).claim(guard.fence())?),
        })
    }

    fn read(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let contents = match self {
            Self::Plain(path) => fs::read(path)?,
            Self::Fenced(claim) => claim.read()?.unwrap_or_default(),
        };
        Ok(String::from_utf8(contents)?.lines().map(str::to_owned).collect())
    }

    fn write(&self, names: &[String]) -> Result<(), Box<dyn Error>> {
        let contents = names.join("\n");
        match self {
            Self::Plain(path) => Ok(fs::write(path, contents)?),
            Self::Fenced(claim) => Ok(claim.write(contents.as_bytes())?),
        }
    }
}

fn is_stale(error: &(dyn Error + 'static)) -> bool {
    !stale_fences(error).is_empty()
}

/// The two fences of a refusal.
fn stale_fences(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(FencedFileError::Stale { seen, ours, .. }) => format!("fence {ours} is older than {seen}"),
        _ => String::new(),
    }
}
