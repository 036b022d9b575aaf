//! The promises that hold everywhere, on real servers.

use std::time::Duration;

use tenure::{Event, Locks};
use tenure_testkit::RedisServer;

use crate::promises::{Deployment, promises};
use crate::support::*;

struct Servers([RedisServer; 5]);

impl Deployment for Servers {
    const NODES: usize = 5;
    const SLACK: Duration = ms(4_500);

    async fn client_with(&self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Locks {
        let locks = builder(self.0.iter().map(RedisServer::url)).observer(observer).build().unwrap();
        locks.ready().await;
        locks
    }
}

promises! { #[tokio::test] Servers(servers()) }
