//! The promises that hold everywhere, on real servers.

use std::time::Duration;

use tenure::Locks;
use tenure_testkit::RedisServer;

use crate::promises::{Deployment, promises};
use crate::support::*;

struct Servers([RedisServer; 5]);

impl Deployment for Servers {
    const NODES: usize = 5;
    const SLACK: Duration = ms(4_500);

    async fn client(&self) -> Locks {
        connect(&self.0).await
    }
}

promises! { #[tokio::test] Servers(servers()) }
