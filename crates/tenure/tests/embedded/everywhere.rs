//! The promises that hold everywhere, on an embedded store.

use std::time::Duration;

use tempfile::TempDir;
use tenure::{Event, Locks, SqliteNode};

use crate::promises::{Deployment, promises};

struct Store(TempDir);

impl Deployment for Store {
    const NODES: usize = 1;
    const SLACK: Duration = Duration::from_millis(4_500);

    async fn client_with(&self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Locks {
        let store = SqliteNode::new(self.0.path().join("locks.db"));
        let locks = Locks::builder().node(store).observer(observer).build().unwrap();
        locks.ready().await;
        locks
    }
}

promises! { #[tokio::test] Store(tempfile::tempdir().unwrap()) }
