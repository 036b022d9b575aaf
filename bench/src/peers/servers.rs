//! The servers that a workload runs on: Redis, etcd if somebody needs it, proxies if they are far.

use std::time::Duration;

use anyhow::Result;
use tenure_testkit::{Mode, Proxy};

use super::contender::{Contender, Stores};
use super::etcd::Etcd;
use crate::cluster::Cluster;

pub(crate) struct Servers {
    pub(crate) redis: Cluster,
    pub(crate) etcd: Option<Etcd>,
    /// Before the Redis servers.
    proxies: Vec<Proxy>,
}

impl Servers {
    /// So many Redis servers, and etcd if one of these needs it.
    pub(crate) fn start(count: usize, contenders: &[Contender]) -> Result<Self> {
        Self::start_with(count, contenders, false)
    }

    /// Five that are as far away as [`Servers::set_distance`] says.
    pub(crate) fn start_far(contenders: &[Contender]) -> Result<Self> {
        Self::start_with(5, contenders, true)
    }

    fn start_with(count: usize, contenders: &[Contender], far: bool) -> Result<Self> {
        let redis = Cluster::of(count);
        let needs_etcd = contenders.iter().any(|contender| contender.peer.stores == Stores::Etcd);
        let etcd = if needs_etcd { Some(Etcd::start(far)?) } else { None };
        let ports = if far { redis.ports() } else { &[] };
        let proxies = ports.iter().map(|port| Proxy::start_forgetful(*port)).collect();
        Ok(Self { redis, etcd, proxies })
    }

    /// How long a message and its answer are on their way.
    pub(crate) fn set_distance(&self, round_trip: Duration) {
        let mode = if round_trip.is_zero() { Mode::Pass } else { Mode::Delay(round_trip / 2) };
        self.proxies.iter().for_each(|proxy| proxy.set_both(mode));
        self.etcd.iter().for_each(|etcd| etcd.set_distance(mode));
    }

    /// Where a contender finds its nodes.
    pub(crate) fn nodes(&self, contender: &Contender) -> String {
        let ports: Vec<u16> = match (contender.peer.stores, &self.etcd) {
            (Stores::Etcd, Some(etcd)) => etcd.ports(),
            _ if self.proxies.is_empty() => self.redis.ports().to_vec(),
            _ => self.proxies.iter().map(Proxy::port).collect(),
        };
        ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    }

    /// What the servers of a contender have used since they started.
    pub(crate) fn cpu_time(&self, contender: &Contender) -> Result<Duration> {
        match (contender.peer.stores, &self.etcd) {
            (Stores::Etcd, Some(etcd)) => etcd.cpu_time(),
            _ => self.redis.cpu_time(),
        }
    }
}
