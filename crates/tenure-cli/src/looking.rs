//! For those who only look: a store that is not there yet is not made for that. Nothing was ever
//! locked in it, so an empty one in memory says the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tenure::{ListProgress, Locks, MemoryNode, SqliteNode};
use tokio::time::sleep;

use crate::backend::Backend;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{List, Report};
use crate::settings::Settings;

/// Whether a store is there now is looked at so often.
const STORE_EVERY: Duration = Duration::from_millis(200);

/// Whom somebody asks who looks.
#[derive(Clone)]
pub(crate) struct Looking {
    backend: Backend,
    /// The address of the store that is not there.
    absent: Option<String>,
}

impl Looking {
    pub(crate) fn connect(settings: &Settings, output: &Output) -> Result<Self, Failure> {
        let Some(store) = absent_store(settings) else {
            return Ok(Self { backend: Backend::connect_aloud(settings, output)?, absent: None });
        };
        output.note(&format!("no store at {} yet: nothing has been locked there", store.path().display()));
        let empty = Locks::builder().prefix(&settings.prefix.value).node(MemoryNode::new("empty"));
        Ok(Self { backend: Backend::Nodes(empty.build()?), absent: Some(store.address().into()) })
    }

    /// For those who look for long: a store that is not there yet is waited for.
    pub(crate) async fn connect_when_there(settings: &Settings, output: &Output) -> Result<Self, Failure> {
        if let Some(store) = absent_store(settings) {
            let path = store.path().display();
            output.note(&format!("no store at {path} yet; waiting for the first lock"));
            while absent_store(settings).is_some() {
                sleep(STORE_EVERY).await;
            }
        }
        Self::connect(settings, output)
    }

    /// Whom it asks.
    pub(crate) const fn backend(&self) -> &Backend {
        &self.backend
    }

    pub(crate) async fn inspect(&self, name: &str) -> Result<Report, Failure> {
        let mut report = match &self.backend {
            Backend::Nodes(locks) => {
                let mut report = Report::from(locks.inspect(name).await?);
                if report.line.iter().any(|waiting| !waiting.keeps.is_empty()) {
                    report.circles = locks.circles([name]).await?;
                }
                report
            }
            Backend::Service(service) => service.inspect(name).await?,
        };
        if let Some(store) = &self.absent {
            report.nodes.iter_mut().for_each(|answer| answer.node.clone_from(store));
            report.agree = vec![store.clone()];
        }
        Ok(report)
    }

    /// All locks. Tells how far it is, in keys of all nodes.
    pub(crate) async fn list(&self, progress: impl FnMut(u64, u64)) -> Result<List, Failure> {
        let mut list = match &self.backend {
            Backend::Nodes(locks) => List::from(locks.list_under("", of_all_nodes(progress)).await?),
            Backend::Service(service) => service.list().await?,
        };
        if let Some(store) = &self.absent {
            list.nodes.iter_mut().for_each(|node| node.node.clone_from(store));
        }
        Ok(list)
    }
}

/// Tells how far a list is, in keys of all nodes together.
pub(crate) fn of_all_nodes(mut tell: impl FnMut(u64, u64)) -> impl FnMut(&ListProgress) {
    let mut walked = BTreeMap::new();
    move |step| {
        walked.insert(Arc::clone(&step.node), (step.looked_at.unwrap_or(0), step.of.unwrap_or(0)));
        let (done, all) = walked.values().fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
        tell(done, all);
    }
}

/// A lock in a store that is not there is held by nobody. To make one in order to say so would hide
/// that it is the wrong one.
pub(crate) fn refuse_absent_store(settings: &Settings, name: &str) -> Result<(), Failure> {
    let Some(store) = absent_store(settings) else { return Ok(()) };
    let path = store.path().display();
    let message = format!(
        "lock {name:?} is not held: there is no store at {path}. Use the nodes it was acquired on (--nodes)"
    );
    Err(Failure::new(Exit::NO, "not_held", message).of_lock(name))
}

/// The one node, if it is a store that would be made now. Where that would fail, whoever connects
/// is told why.
fn absent_store(settings: &Settings) -> Option<SqliteNode> {
    let [url] = &settings.nodes.value[..] else { return None };
    let store = SqliteNode::parse(url.as_str()).ok()?;
    let path = store.path();
    let is_absent = path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    // The folder of the default store is made with it, and no other.
    let is_default = || SqliteNode::user_default().is_ok_and(|default| default.path() == path);
    let can_be_made = || path.parent().is_some_and(std::path::Path::is_dir) || is_default();
    (is_absent && can_be_made()).then_some(store)
}
