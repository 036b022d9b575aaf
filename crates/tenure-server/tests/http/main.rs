//! The service over real connections, on memory nodes and on real ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod answers;
mod callers;
mod connections;
mod contract;
mod dashboard;
mod door;
mod drain;
mod events;
mod everywhere;
mod force;
mod hold;
mod http2;
mod input;
mod leases;
mod logs;
mod looking;
mod metrics;
mod overload;
mod real_nodes;
mod repeating;
mod tls;
mod watch;
mod who_goes_away;

use std::net::SocketAddr;

use serde_json::{Value, json};
use tenure::{Locks, MemoryNode};
use tenure_server::{CutOff, LeaseKeys, Service};
use tenure_testkit::http as client;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An instance that listens, until it is told to end.
struct Instance {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), CutOff>>,
}

impl Instance {
    async fn start(service: Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ends) = oneshot::channel();
        let ends = async {
            let _ = ends.await;
        };
        Self { address, end, ended: tokio::spawn(service.serve(listener, ends)) }
    }

    async fn stop(self) {
        let _ = self.end.send(());
        self.ended.await.unwrap().unwrap();
    }
}

fn nodes() -> [MemoryNode; 3] {
    ["a", "b", "c"].map(MemoryNode::new)
}

/// A client of its own, as every instance has.
fn locks(nodes: &[MemoryNode]) -> Locks {
    Locks::builder().nodes(nodes.iter().cloned()).build().unwrap()
}

fn keys(digit: char) -> LeaseKeys {
    LeaseKeys::parse(&digit.to_string().repeat(64)).unwrap()
}

fn service(nodes: &[MemoryNode]) -> Service {
    Service::new(locks(nodes), keys('a'))
}

/// The name and token of a lease, as a client sends them back.
fn given(lease: &Value) -> Value {
    match lease.get("names") {
        Some(names) => json!({ "names": names, "token": lease["token"] }),
        None => json!({ "name": lease["name"], "token": lease["token"] }),
    }
}
