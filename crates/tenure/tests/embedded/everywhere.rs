//! The promises that hold everywhere, on an embedded store.

use std::time::Duration;

use tempfile::TempDir;
use tenure::Locks;

use crate::promises::{Deployment, promises};

struct Store(TempDir);

impl Deployment for Store {
    const NODES: usize = 1;
    const SLACK: Duration = Duration::from_millis(4_500);

    async fn client(&self) -> Locks {
        Locks::connect([format!("sqlite:{}", self.0.path().join("locks.db").display())]).await.unwrap()
    }
}

promises! { #[tokio::test] Store(tempfile::tempdir().unwrap()) }
