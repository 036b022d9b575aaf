//! What must be the same on memory nodes, on five servers and on the embedded store.

use tenure::{Locks, Node};
use tenure_server::Service;
use tenure_testkit::RedisServer;

use crate::{keys, nodes};

/// One of them.
pub(crate) struct Fleet(Vec<Node>);

impl Fleet {
    pub(crate) fn of(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self(nodes.into_iter().collect())
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        self.0.iter().cloned()
    }

    /// A client of its own, as every instance has.
    pub(crate) async fn locks(&self) -> Locks {
        let locks = Locks::builder().nodes(self.0.iter().cloned()).build().unwrap();
        locks.ready().await;
        locks
    }

    pub(crate) async fn service(&self) -> Service {
        Service::new(self.locks().await, keys('a'))
    }
}

/// Lets it happen on each of them.
pub(crate) async fn everywhere(story: impl AsyncFn(&Fleet)) {
    story(&Fleet(nodes().into_iter().map(Node::from).collect())).await;
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    story(&Fleet(servers.iter().map(|server| Node::parse(&server.url()).unwrap()).collect())).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    story(&Fleet(vec![Node::parse(&url).unwrap()])).await;
}
