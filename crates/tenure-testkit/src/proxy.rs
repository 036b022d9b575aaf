//! A TCP proxy that can be made to fail, in each direction by itself.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::port::Port;

/// A proxy before one server. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    /// Dropping it ends the proxy's thread.
    _alive: mpsc::Sender<()>,
}

/// From the client to the server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the client says.
    Requests,
    /// What the server says.
    Replies,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// They pass after this time, in order.
    Delay(Duration),
    /// They wait until the mode changes.
    Stall,
    /// They vanish. A stream never goes on behind a hole, so connections that lost bytes are cut
    /// when the mode changes.
    Swallow,
    /// So many bytes pass, then the connection is cut.
    CutAfter(usize),
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    modes: Mutex<Modes>,
    /// Counts up when all connections are to be cut.
    cuts: watch::Sender<u64>,
    /// Refuse new connections.
    closed: watch::Sender<bool>,
    /// What clients have sent, if it is kept.
    requests: Option<Mutex<Vec<u8>>>,
}

/// What happens to the bytes of each direction.
#[derive(Debug)]
struct Modes {
    /// For connections that are still to come.
    next: [Mode; 2],
    /// For those that are there. Whoever has parted is no longer among them.
    links: Vec<Arc<Link>>,
}

/// One connection.
#[derive(Debug)]
struct Link {
    modes: [watch::Sender<Mode>; 2],
    /// Whether the client is cut off from what it has sent.
    parted: watch::Sender<bool>,
}

/// Connections that their clients have lost and the server has not, with what is still under way on
/// them.
#[derive(Debug)]
pub struct Parted(Vec<Arc<Link>>);

impl Parted {
    /// Lets the server have what was held back.
    pub fn arrive(&self) {
        self.0.iter().for_each(|link| {
            link.mode(Direction::Requests).send_replace(Mode::Pass);
        });
    }
}

impl Proxy {
    /// Starts a proxy before the server at this loopback port.
    #[must_use]
    pub fn start(upstream: u16) -> Self {
        Self::start_keeping(upstream, Some(Mutex::default()))
    }

    /// Starts one that keeps nothing of what it carries: for long runs.
    #[must_use]
    pub fn start_forgetful(upstream: u16) -> Self {
        Self::start_keeping(upstream, None)
    }

    fn start_keeping(upstream: u16, requests: Option<Mutex<Vec<u8>>>) -> Self {
        let shared = Arc::new(Shared {
            upstream: Mutex::new(SocketAddr::from(([127, 0, 0, 1], upstream))),
            modes: Mutex::new(Modes { next: [Mode::Pass; 2], links: vec![] }),
            cuts: watch::Sender::new(0),
            closed: watch::Sender::new(false),
            requests,
        });
        let (alive, mut ended) = mpsc::channel::<()>(1);
        let (bound, port) = std::sync::mpsc::channel();
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let (listener, port) = listen().await;
                bound.send(port).unwrap();
                tokio::select! {
                    () = serve(listener, serving) => {}
                    _ = ended.recv() => {}
                }
            });
        });
        Self { port: port.recv().unwrap(), shared, _alive: alive }
    }

    /// The URL of the server behind it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Leads to the server at another loopback port from now on, as a name does after a failover.
    /// Connections that are there stay.
    pub fn lead_to(&self, upstream: u16) {
        *self.shared.upstream.lock().unwrap() = SocketAddr::from(([127, 0, 0, 1], upstream));
    }

    /// What happens to one direction from now on.
    pub fn set(&self, direction: Direction, mode: Mode) {
        let mut modes = self.shared.modes.lock().unwrap();
        modes.next[direction as usize] = mode;
        modes.links.iter().for_each(|link| {
            link.mode(direction).send_replace(mode);
        });
    }

    /// What happens to both directions from now on.
    pub fn set_both(&self, mode: Mode) {
        self.set(Direction::Requests, mode);
        self.set(Direction::Replies, mode);
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Takes every connection from its client, and from nobody else: the server still has it, and
    /// what the client has sent and is held back now stays so until [`Parted::arrive`], whatever
    /// becomes of later connections.
    #[must_use]
    pub fn part(&self) -> Parted {
        let parted = std::mem::take(&mut self.shared.modes.lock().unwrap().links);
        parted.iter().for_each(|link| {
            link.parted.send_replace(true);
        });
        Parted(parted)
    }

    /// Refuses new connections, or takes them again.
    pub fn close(&self, closed: bool) {
        self.shared.closed.send_replace(closed);
    }

    /// Every byte that clients have sent so far, connections one after the other as they came.
    #[must_use]
    pub fn requests(&self) -> Vec<u8> {
        let requests = self.shared.requests.as_ref().expect("it was not started forgetful");
        requests.lock().unwrap().clone()
    }
}

impl Shared {
    /// A new connection.
    fn link(&self) -> Arc<Link> {
        let mut modes = self.modes.lock().unwrap();
        let link = Link { modes: modes.next.map(watch::Sender::new), parted: watch::Sender::new(false) };
        modes.links.push(Arc::new(link));
        Arc::clone(&modes.links[modes.links.len() - 1])
    }

    /// One that is over.
    fn unlink(&self, gone: &Arc<Link>) {
        self.modes.lock().unwrap().links.retain(|link| !Arc::ptr_eq(link, gone));
    }
}

impl Link {
    const fn mode(&self, direction: Direction) -> &watch::Sender<Mode> {
        &self.modes[direction as usize]
    }
}

/// Listens on a port that nobody else has.
async fn listen() -> (TcpListener, Port) {
    loop {
        let port = Port::claim();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port.number())).await {
            return (listener, port);
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if !*shared.closed.borrow() {
            let (link, shared) = (shared.link(), Arc::clone(&shared));
            tokio::spawn(async move {
                connection(client, &shared, &link).await;
                shared.unlink(&link);
            });
        }
    }
}

async fn connection(client: TcpStream, shared: &Shared, link: &Link) {
    let (mut cuts, mut parted) = (shared.cuts.subscribe(), link.parted.subscribe());
    let upstream = *shared.upstream.lock().unwrap();
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let (queue, queued) = mpsc::unbounded_channel();
    let requests = deliver(&mut to_server, queued, link.mode(Direction::Requests).subscribe());
    tokio::pin!(requests);
    // Whichever ends first ends all: dropping the halves closes the sockets.
    tokio::select! {
        () = read(from_client, queue, shared.requests.as_ref()) => return,
        () = answer(from_server, to_client, link) => return,
        () = &mut requests => return,
        _ = cuts.changed() => return,
        _ = parted.wait_for(|parted| *parted) => {}
    }
    // The client is gone. The server does not know, and gets what was under way; then it may still
    // wait for more.
    tokio::select! {
        () = async { requests.await; std::future::pending().await } => {}
        _ = cuts.changed() => {}
    }
}

/// Carries what the server says until it ends.
async fn answer(from: OwnedReadHalf, mut to: OwnedWriteHalf, link: &Link) {
    let (queue, queued) = mpsc::unbounded_channel();
    tokio::select! {
        () = read(from, queue, None) => {}
        () = deliver(&mut to, queued, link.mode(Direction::Replies).subscribe()) => {}
    }
}

/// Reads until the end, and keeps a copy if that is wanted.
async fn read(mut from: OwnedReadHalf, queue: mpsc::UnboundedSender<Chunk>, copy: Option<&Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if let Some(copy) = copy {
            copy.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
        if queue.send((Instant::now(), buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// Bytes, and when they were read.
type Chunk = (Instant, Vec<u8>);

async fn deliver(
    to: &mut OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Chunk>,
    mut modes: watch::Receiver<Mode>,
) {
    let (mut passed, mut holed) = (0, false);
    loop {
        let next = tokio::select! {
            next = queue.recv() => next,
            // A stream with a hole in it ends as soon as bytes would pass again.
            Ok(()) = modes.changed(), if holed => return,
        };
        let Some((read, mut bytes)) = next else { return };
        loop {
            let mode = *modes.borrow_and_update();
            match mode {
                Mode::Pass => break,
                Mode::Delay(delay) => {
                    sleep_until(read + delay).await;
                    break;
                }
                Mode::Stall => {
                    if modes.changed().await.is_err() {
                        return;
                    }
                }
                Mode::Swallow => {
                    (holed, bytes) = (true, vec![]);
                    break;
                }
                Mode::CutAfter(limit) => {
                    bytes.truncate(limit.saturating_sub(passed));
                    let _ = to.write_all(&bytes).await;
                    passed += bytes.len();
                    if passed >= limit {
                        return;
                    }
                    bytes.clear();
                    break;
                }
            }
        }
        if holed && !bytes.is_empty() || to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Sleeps as exactly as the machine can. The runtime's timers know whole milliseconds only, which
/// would make a node a few milliseconds away seem twice as far.
async fn sleep_until(end: Instant) {
    const COARSE: Duration = Duration::from_millis(2);
    if let Some(nearly) = end.checked_sub(COARSE) {
        tokio::time::sleep_until(nearly).await;
    }
    let rest = move || std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let _ = tokio::task::spawn_blocking(rest).await;
}
