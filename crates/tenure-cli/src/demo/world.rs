//! What the demo starts: nodes, contenders and the service, in a folder of their own.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::time::{Duration, Instant};

use tenure_server::LeaseKeys;
use tokio::sync::mpsc::UnboundedSender;

use super::contender::{self, Said};
use super::keys::Act;
use super::process::{self, Folder};
use super::server::{self, Power, Server};
use super::setup::Setup;
use crate::signals::Signal;

pub(crate) const CONTENDERS: [&str; 8] = ["ann", "ben", "cid", "dot", "eve", "fay", "gus", "hal"];
const NODES: usize = 5;

/// A service that takes longer to listen has failed.
const SERVICE_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What contenders say: who, since which start of all of them, and what.
pub(crate) type Reports = UnboundedSender<(usize, u64, Said)>;

#[derive(Debug)]
pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) servers: Vec<Server>,
    contenders: Vec<Child>,
    /// How often all contenders were started.
    round: u64,
    paused: Option<usize>,
    service: Option<(Child, u16)>,
    reports: Reports,
    /// Dropped last: it sees to it that nothing is left.
    folder: Folder,
}

impl World {
    /// Starts everything; with one node that is a file if there is no server to start.
    pub(super) fn start(reports: Reports, with_service: bool) -> io::Result<Self> {
        let mut folder = Folder::make()?;
        let mut servers = vec![];
        if server::is_installed() {
            for _ in 0..NODES {
                servers.push(Server::start(&mut folder)?);
            }
        }
        let nodes = if servers.is_empty() {
            vec![format!("sqlite:{}", folder.path().join("locks.db").display())]
        } else {
            servers.iter().map(Server::url).collect()
        };
        let setup = Setup { nodes, guard: true, known_nodes: folder.path().join("known_nodes") };
        let mut world = Self {
            setup,
            servers,
            contenders: vec![],
            round: 0,
            paused: None,
            service: None,
            reports,
            folder,
        };
        world.start_contenders()?;
        if with_service {
            world.start_service()?;
        }
        Ok(world)
    }

    /// Where the dashboard is.
    pub(super) fn dashboard(&self) -> Option<String> {
        self.service.as_ref().map(|(_, port)| format!("http://127.0.0.1:{port}/"))
    }

    pub(super) const fn round(&self) -> u64 {
        self.round
    }

    pub(super) const fn paused(&self) -> Option<usize> {
        self.paused
    }

    /// Does something to a node. Says why not, if that makes no sense.
    pub(super) fn act(&mut self, number: usize, act: Act) -> Result<(), String> {
        let Self { servers, folder, .. } = self;
        let Some(server) = servers.get_mut(number) else {
            return Err("the only node is a file, not a server; install redis-server to get five nodes to \
                        kill, stop, empty and restart"
                .to_owned());
        };
        let node = number + 1;
        match (act, server.power()) {
            (Act::Kill | Act::Stop | Act::Empty, Power::Killed) => {
                Err(format!("node {node} is down; press r to restart it"))
            }
            (Act::Stop | Act::Empty, Power::Stopped) => {
                Err(format!("node {node} is stopped; press c to continue it"))
            }
            (Act::GoOn, Power::Up | Power::Killed) => Err(format!("node {node} is not stopped")),
            (Act::Kill, _) => {
                server.kill(folder);
                Ok(())
            }
            (Act::Stop, _) => {
                server.stop();
                Ok(())
            }
            (Act::GoOn, _) => {
                server.go_on();
                Ok(())
            }
            (Act::Empty, _) => server.empty().map_err(|error| format!("node {node}: {error}")),
            (Act::Restart, _) => server.restart(folder).map_err(|error| format!("node {node}: {error}")),
        }
    }

    /// Halts a contender.
    pub(super) fn pause(&mut self, who: usize) {
        if let Some(child) = self.contenders.get(who) {
            process::signal(child, Signal::SIGSTOP);
            self.paused = Some(who);
        }
    }

    /// Lets the one that was halted go on.
    pub(super) fn resume(&mut self) -> Option<usize> {
        let who = self.paused.take()?;
        process::signal(self.contenders.get(who)?, Signal::SIGCONT);
        Some(who)
    }

    /// The next holder keeps the lock for its whole term; or nobody does any more.
    pub(super) fn hold_long(&mut self, long: bool) {
        let word = if long { "long" } else { "short" };
        for child in &mut self.contenders {
            // One that is gone holds nothing.
            let _ = child.stdin.as_mut().map(|pipe| writeln!(pipe, "{word}"));
        }
    }

    /// Everybody starts again with the other setting.
    pub(super) fn switch_guard(&mut self) -> io::Result<()> {
        self.end_contenders();
        self.setup.guard = !self.setup.guard;
        self.start_contenders()?;
        if let Some((service, port)) = self.service.take() {
            self.folder.end(service);
            let service = self.launch_service(port)?;
            self.service = Some((service, port));
        }
        Ok(())
    }

    fn start_contenders(&mut self) -> io::Result<()> {
        self.round += 1;
        for (index, who) in CONTENDERS.iter().enumerate() {
            let mut child = self.folder.start(contender::command(who, &self.setup)?)?;
            contender::listen(&mut child, index, self.round, self.reports.clone());
            self.contenders.push(child);
        }
        Ok(())
    }

    fn end_contenders(&mut self) {
        self.paused = None;
        for child in self.contenders.drain(..) {
            self.folder.end(child);
        }
    }

    fn start_service(&mut self) -> io::Result<()> {
        let key = LeaseKeys::generate().map_err(io::Error::other)?.1;
        let path = self.folder.path().join("lease_key");
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(key.as_bytes())?;
        let port = server::free_port()?;
        let mut service = self.launch_service(port)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let begun = Instant::now();
        loop {
            if TcpStream::connect_timeout(&address, LOOK_EVERY).is_ok() {
                self.service = Some((service, port));
                return Ok(());
            }
            let ended = service.try_wait()?.is_some();
            if ended || begun.elapsed() > SERVICE_MAX {
                self.folder.end(service);
                return Err(io::Error::other("cannot start the service with the dashboard"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn launch_service(&mut self, port: u16) -> io::Result<Child> {
        let folder = self.folder.path().to_owned();
        std::fs::write(folder.join("tenure.toml"), self.setup.file())?;
        let mut command = process::tied(crate::work::own_program()?.as_os_str())?;
        command.arg("serve").arg("--config").arg(folder.join("tenure.toml"));
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--lease-key"]).arg(folder.join("lease_key"));
        self.folder.start(command)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_contenders();
        if let Some((service, _)) = self.service.take() {
            self.folder.end(service);
        }
        for server in &mut self.servers {
            server.kill(&mut self.folder);
        }
    }
}
