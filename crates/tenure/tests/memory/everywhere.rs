//! The promises that hold everywhere, on memory nodes.

use std::time::Duration;

use tenure::{Event, Locks, MemoryNode};

use crate::promises::{Deployment, promises};
use crate::support::*;

struct Memory([MemoryNode; 5]);

impl Deployment for Memory {
    const NODES: usize = 5;
    // Nothing but a retry: the clock stands still while anybody works.
    const SLACK: Duration = ms(150);

    async fn client_with(&self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Locks {
        builder(&self.0).tokio_time().observer(observer).build().unwrap()
    }
}

promises! { #[tokio::test(start_paused = true)] Memory(nodes()) }
