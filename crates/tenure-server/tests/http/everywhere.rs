//! What must be the same on memory nodes, on five servers and on the embedded store.

use std::fs;
use std::sync::Mutex;

use futures_util::future::join_all;
use tempfile::TempDir;
use tenure::{Builder, Event, Faults, Locks, MemoryNode, Node};
use tenure_server::Service;
use tenure_testkit::RedisServer;

use crate::{keys, nodes};

/// One of them.
pub(crate) struct Fleet {
    nodes: Vec<Node>,
    made_of: MadeOf,
}

/// What its nodes are.
pub(crate) enum MadeOf {
    Memory(Vec<MemoryNode>),
    Servers(Mutex<Vec<RedisServer>>),
    Embedded(TempDir),
}

impl Fleet {
    pub(crate) fn memory() -> Self {
        let nodes = nodes().to_vec();
        Self { nodes: nodes.iter().cloned().map(Node::from).collect(), made_of: MadeOf::Memory(nodes) }
    }

    pub(crate) fn servers(servers: impl IntoIterator<Item = RedisServer>) -> Self {
        let servers: Vec<RedisServer> = servers.into_iter().collect();
        let nodes = servers.iter().map(|server| Node::parse(&server.url()).unwrap()).collect();
        Self { nodes, made_of: MadeOf::Servers(Mutex::new(servers)) }
    }

    fn five_servers() -> Self {
        Self::servers(RedisServer::start_many::<5>(&[]))
    }

    fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { nodes: vec![Node::parse(&url).unwrap()], made_of: MadeOf::Embedded(folder) }
    }

    pub(crate) const fn made_of(&self) -> &MadeOf {
        &self.made_of
    }

    /// Whether it is a single node.
    pub(crate) const fn is_one(&self) -> bool {
        matches!(self.made_of, MadeOf::Embedded(_))
    }

    fn builder(&self) -> Builder {
        Locks::builder().nodes(self.nodes.iter().cloned())
    }

    /// A client of its own, as every instance has.
    pub(crate) async fn locks(&self) -> Locks {
        let locks = self.builder().build().unwrap();
        locks.ready().await;
        locks
    }

    /// The same, with somebody who hears what happens to it.
    pub(crate) async fn observed(&self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Locks {
        let locks = self.builder().observer(observer).build().unwrap();
        locks.ready().await;
        locks
    }

    pub(crate) async fn service(&self) -> Service {
        Service::new(self.locks().await, keys('a'))
    }

    /// Lets the first node forget everything; an embedded store, which is the only node, does not.
    pub(crate) fn forget_on_one(&self) {
        match &self.made_of {
            MadeOf::Memory(nodes) => nodes[0].forget(),
            MadeOf::Servers(servers) => drop(servers.lock().unwrap()[0].execute(&["FLUSHALL"])),
            MadeOf::Embedded(_) => {}
        }
    }

    /// From now on no node answers.
    pub(crate) fn break_down(&self) {
        match &self.made_of {
            MadeOf::Memory(nodes) => nodes.iter().for_each(|node| node.set_faults(Faults::unreachable())),
            MadeOf::Servers(servers) => servers.lock().unwrap().clear(),
            MadeOf::Embedded(folder) => fs::remove_dir_all(folder.path()).unwrap(),
        }
    }
}

/// Lets it happen on each of them, at the same time: most of it is waiting.
pub(crate) async fn everywhere(story: impl AsyncFn(&Fleet)) {
    let fleets = [Fleet::memory(), Fleet::five_servers(), Fleet::embedded()];
    join_all(fleets.iter().map(|fleet| story(fleet))).await;
}
