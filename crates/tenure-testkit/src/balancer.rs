//! Real HTTP proxies that share requests out between instances: `HAProxy` and nginx.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::nursery;
use crate::port::Port;
use crate::skipping::require;

/// How long a proxy may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// In settings, as the documents show them: where the proxy listens, and the first instance. The
/// next instances have the ports that follow.
const FRONT: u16 = 7420;

/// A proxy that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Balancer {
    port: Port,
    process: Child,
    _folder: TempDir,
}

impl Balancer {
    /// `HAProxy` with these settings, before the instances at these loopback ports.
    #[must_use]
    pub fn haproxy(settings: &str, instances: &[u16]) -> Self {
        Self::start("haproxy", instances, |folder, ports| {
            let file = folder.join("haproxy.cfg");
            fs::write(&file, ports(settings)).unwrap();
            let mut command = nursery::command("haproxy");
            command.arg("-db").arg("-f").arg(file);
            command
        })
    }

    /// Nginx with these settings of a server, before the instances at these loopback ports.
    #[must_use]
    pub fn nginx(settings: &str, instances: &[u16]) -> Self {
        Self::start("nginx", instances, |folder, ports| {
            let (file, folder) = (folder.join("nginx.conf"), folder.display());
            // One process, which ends with us.
            let whole = format!(
                "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/log;\n\
                 events {{ worker_connections 4096; }}\n\
                 http {{\naccess_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
                 fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
                 {}\n}}\n",
                ports(settings)
            );
            fs::write(&file, whole).unwrap();
            let mut command = nursery::command("nginx");
            command.arg("-e").arg("stderr").arg("-c").arg(file);
            command
        })
    }

    fn start(
        program: &str,
        instances: &[u16],
        command: impl Fn(&Path, &dyn Fn(&str) -> String) -> Command,
    ) -> Self {
        require(Path::new(program));
        // Another process may take the port between our look and the proxy's start: then try
        // another.
        for _ in 0..10 {
            let (port, folder) = (Port::claim(), tempfile::tempdir().unwrap());
            let ports = |settings: &str| {
                let addresses =
                    (FRONT..).zip(std::iter::once(port.number()).chain(instances.iter().copied()));
                addresses.fold(settings.to_owned(), |text, (shown, real)| {
                    text.replace(&format!("127.0.0.1:{shown}"), &format!("127.0.0.1:{real}"))
                })
            };
            let mut command = command(folder.path(), &ports);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = nursery::spawn(command).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while process.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(("127.0.0.1", port.number())).is_ok() {
                    return Self { port, process, _folder: folder };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("{program} does not start");
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
