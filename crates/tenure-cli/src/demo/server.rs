//! One `redis-server` of the demo.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use super::process::{self, Folder};
use crate::signals::Signal;

/// A server that takes longer to start has failed.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A server on this machine that takes longer to answer does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Another program may take a port between our look and the server's start.
const PORTS_MAX: u32 = 10;

/// What was done to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Power {
    #[default]
    Up,
    Stopped,
    Killed,
}

#[derive(Debug)]
pub(super) struct Server {
    port: u16,
    process: Option<Child>,
    power: Power,
}

impl Server {
    /// Starts one on a free port.
    pub(super) fn start(folder: &mut Folder) -> io::Result<Self> {
        let mut outcome = Err(io::Error::other("no free port"));
        for _ in 0..PORTS_MAX {
            let mut server = Self { port: free_port()?, process: None, power: Power::Killed };
            outcome = server.launch(folder).map(|()| server);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) const fn power(&self) -> Power {
        self.power
    }

    pub(super) fn kill(&mut self, folder: &mut Folder) {
        if let Some(process) = self.process.take() {
            folder.end(process);
        }
        self.power = Power::Killed;
    }

    /// It keeps its connections and answers nobody.
    pub(super) fn stop(&mut self) {
        if let Some(process) = &self.process {
            process::signal(process, Signal::SIGSTOP);
            self.power = Power::Stopped;
        }
    }

    pub(super) fn go_on(&mut self) {
        if let Some(process) = &self.process {
            process::signal(process, Signal::SIGCONT);
            self.power = Power::Up;
        }
    }

    /// Starts it again where it was. It keeps nothing over a restart.
    pub(super) fn restart(&mut self, folder: &mut Folder) -> io::Result<()> {
        self.kill(folder);
        self.launch(folder)
    }

    /// Takes its memory from it.
    pub(super) fn empty(&self) -> io::Result<()> {
        if self.ask("FLUSHALL")?.starts_with("+OK") {
            Ok(())
        } else {
            Err(io::Error::other("the server rejected FLUSHALL"))
        }
    }

    fn launch(&mut self, folder: &mut Folder) -> io::Result<()> {
        let data: PathBuf = folder.path().join(format!("node-{}", self.port));
        std::fs::create_dir_all(&data)?;
        let port = self.port.to_string();
        let mut command = process::tied(OsStr::new("redis-server"))?;
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--daemonize", "no", "--dir"]).arg(data).args(["--logfile", ""]);
        let mut process = folder.start(command)?;
        let begun = Instant::now();
        while begun.elapsed() < START_MAX {
            if process.try_wait()?.is_some() {
                return Err(io::Error::other("redis-server exited at startup"));
            }
            // Who answers may be another that has taken the port.
            let is_ours = format!("process_id:{}\r", process.id());
            if self.ask("INFO server").is_ok_and(|info| info.contains(&is_ours)) {
                (self.process, self.power) = (Some(process), Power::Up);
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        folder.end(process);
        Err(io::Error::other("redis-server does not answer"))
    }

    /// What it says to a command, as it comes over the wire.
    fn ask(&self, command: &str) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut connection = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        connection.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// A loopback port that nobody listens on.
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether there is a `redis-server` to start.
pub(super) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        let program = folder.join("redis-server");
        program.is_file() && nix::unistd::access(&program, nix::unistd::AccessFlags::X_OK).is_ok()
    })
}
