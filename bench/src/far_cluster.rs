//! Real servers far away: each behind a proxy that holds back whatever passes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tenure::RedisNode;
use tenure_testkit::{Mode, Proxy, RedisServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub(crate) const SERVERS: usize = 5;

/// The node whose answer makes a majority, in order of distance.
pub(crate) const MAJORITY: usize = SERVERS / 2 + 1;

pub(crate) struct FarCluster {
    servers: [RedisServer; SERVERS],
    proxies: [Proxy; SERVERS],
}

/// Connections that ask each server the shortest question there is.
pub(crate) struct Pings(Vec<TcpStream>);

impl FarCluster {
    /// Servers that are near, until they are moved.
    pub(crate) fn start() -> Self {
        let servers: [RedisServer; SERVERS] = RedisServer::start_many(&["--save", "", "--appendonly", "no"]);
        let proxies = servers.each_ref().map(|server| Proxy::start_forgetful(server.port()));
        Self { servers, proxies }
    }

    /// Moves the servers so far away that a message and its answer take so long.
    pub(crate) fn move_to(&self, round_trips: [Duration; SERVERS]) {
        for (proxy, round_trip) in self.proxies.iter().zip(round_trips) {
            proxy.set_both(if round_trip.is_zero() { Mode::Pass } else { Mode::Delay(round_trip / 2) });
        }
    }

    pub(crate) fn urls(&self) -> [String; SERVERS] {
        self.proxies.each_ref().map(Proxy::url)
    }

    pub(crate) fn nodes(&self) -> Result<Vec<RedisNode>> {
        Ok(self.urls().iter().map(|url| RedisNode::parse(url)).collect::<Result<_, _>>()?)
    }

    /// A folder that goes with the servers: ports are used again, so what is known of these servers
    /// must not outlive them.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.servers[0].folder()
    }

    pub(crate) async fn pings(&self) -> Result<Pings> {
        let mut streams = vec![];
        for proxy in &self.proxies {
            let stream = TcpStream::connect(("127.0.0.1", proxy.port())).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        Ok(Pings(streams))
    }
}

impl Pings {
    /// Asks all at once: how long it took until the majority had answered.
    pub(crate) async fn majority(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut asked: JoinSet<std::io::Result<(TcpStream, Duration)>> = JoinSet::new();
        for mut stream in self.0.drain(..) {
            asked.spawn(async move {
                stream.write_all(b"PING\r\n").await?;
                stream.read_exact(&mut [0; b"+PONG\r\n".len()]).await?;
                Ok((stream, begun.elapsed()))
            });
        }
        let mut majority = None;
        while let Some(answered) = asked.join_next().await {
            let (stream, elapsed) = answered??;
            self.0.push(stream);
            if self.0.len() == MAJORITY {
                majority = Some(elapsed);
            }
        }
        majority.context("no majority answered")
    }
}
