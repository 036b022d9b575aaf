//! A real object store that speaks S3 on a free loopback port: Versity's gateway, which keeps
//! objects in a folder.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::nursery;
use crate::port::Port;
use crate::skipping::{on_path, skip};

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the tests log in with: the server ends with them.
const KEY: &str = "tenure-tests";

/// The bucket that is there from the beginning.
const BUCKET: &str = "documents";

/// A running server with a folder of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct S3Server {
    port: Port,
    process: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl S3Server {
    /// Starts `versitygw`. `None` if it is not installed; the test is skipped then, and named.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(program) = on_path("versitygw".as_ref()) else {
            skip("versitygw, an S3 server, is not installed");
            return None;
        };
        // Another process may take the port between our look and the server's start: then try
        // another.
        for _ in 0..10 {
            let (folder, port) = (tempfile::tempdir().unwrap(), Port::claim());
            let (objects, metadata) = (folder.path().join("objects"), folder.path().join("metadata"));
            // A folder is a bucket of the administrator's.
            std::fs::create_dir_all(objects.join(BUCKET)).unwrap();
            std::fs::create_dir(&metadata).unwrap();
            let mut command = nursery::command(&program);
            command.args(["--quiet", "--port", &format!("127.0.0.1:{}", port.number()), "posix"]);
            // One request after the other: it checks a condition and writes in two steps, and
            // writers between them would both win.
            command.args(["--concurrency", "1"]);
            // Beside the objects, because not every file system has extended attributes.
            command.arg("--sidecar").arg(metadata).arg(objects);
            command.env("ROOT_ACCESS_KEY", KEY).env("ROOT_SECRET_KEY", KEY);
            command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir(folder.path());
            if let Some(process) = answers(nursery::spawn(command).unwrap(), &port) {
                return Some(Self { port, process, _folder: folder });
            }
        }
        panic!("versitygw does not start");
    }

    /// Its URL, which is what S3 clients call the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// A bucket that is there.
    #[must_use]
    pub const fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// The access key, and the secret as well.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        KEY
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process, once it listens; nothing if it has ended.
fn answers(mut process: Child, port: &Port) -> Option<Child> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && process.try_wait().unwrap().is_none() {
        if std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok() {
            return Some(process);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}
