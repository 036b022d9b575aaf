//! From an address to a connection that is ready for commands.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Fault, Rounded};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::info;
use super::resp::{Decimal, Push, Value, decode, encode};
use super::script::Scripts;
use super::{Endpoint, Password, RedisNode};
use crate::node::Server;

/// How long a try to connect may take, from the first packet to the last reply: longer than any
/// round trip, and short enough that a node that comes back is noticed at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream of bytes to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that is ready.
pub(super) struct Established {
    pub(super) stream: Box<dyn Stream>,
    pub(super) server: Server,
    pub(super) scripts: Scripts,
    pub(super) identity: Option<Identity>,
    /// What came after the last reply.
    pub(super) unread: Vec<u8>,
}

/// How the server knows a connection. A server that was started again gives out the same ids to
/// others, but not together with the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    id: String,
    address: String,
}

/// Connects, logs in and loads the scripts. `previous` is the connection before, if one broke.
///
/// # Errors
/// Why not, in words for the user; never with a password. [`Fault::Misconfigured`] if no retry
/// helps.
pub(super) async fn establish(
    node: Arc<RedisNode>,
    scripts: Scripts,
    previous: Option<Identity>,
) -> Result<Established, Fault> {
    match timeout(CONNECT_TIMEOUT, attempt(&node, scripts, previous)).await {
        Ok(result) => result,
        Err(_) => Err(down(format!("no answer within {}", Rounded(CONNECT_TIMEOUT)))),
    }
}

/// The node may come back by itself.
fn down(reason: impl Into<Arc<str>>) -> Fault {
    Fault::Unreachable(reason.into())
}

/// Somebody has to change something.
fn misconfigured(reason: impl Into<Arc<str>>) -> Fault {
    Fault::Misconfigured(reason.into())
}

async fn attempt(
    node: &RedisNode,
    mut scripts: Scripts,
    previous: Option<Identity>,
) -> Result<Established, Fault> {
    let mut stream = open(node).await?;
    let (requests, asked) = greeting(node, &scripts, previous).await?;
    stream.write_all(&requests).await.map_err(|error| failed(&error))?;
    stream.flush().await.map_err(|error| failed(&error))?;
    let (replies, unread) = read_replies(&mut stream, asked.len()).await?;
    let (mut identity, mut names) = (None, vec![]);
    let (mut about, mut config, mut tracked) = (String::new(), Value::Null, 0);
    for (question, reply) in asked.into_iter().zip(replies) {
        match (question, reply) {
            (Question::Hello, Value::List(server)) => check_version(&server)?,
            (Question::Hello, Value::Error(message)) => return Err(login_error(&message)),
            (Question::Select, Value::Error(message)) => return Err(misconfigured(message)),
            (Question::Client, Value::Text(info)) => identity = identity_of(&info),
            (Question::Track, Value::Text(_)) => tracked += 1,
            (Question::Listen, Value::Push(_)) => scripts.listens = true,
            (Question::Info, Value::Text(info)) => about = info,
            (Question::Config, settings) => config = settings,
            (Question::Kill, Value::Error(message)) if message.starts_with("NOPERM") => {
                let node = &*node.address;
                tracing::warn!(target: "tenure", node, message, "commands from a broken connection may \
                                                                 arrive late");
            }
            (Question::Load, Value::Text(name)) => names.push(Some(name)),
            // Not allowed to load: the text is sent with every command. Anything else means not
            // ready.
            (Question::Load, Value::Error(message)) if message.starts_with("NOPERM") => names.push(None),
            (Question::Load, Value::Error(message)) => return Err(down(message)),
            // An older connection that is gone already, or a server that does not tell: both are
            // fine.
            (Question::Kill | Question::Client | Question::Select, _) => {}
            // A user who may not do this has less protection, which is said where nodes are
            // reported.
            (Question::Track | Question::Info | Question::Listen, _) => {}
            (Question::Hello | Question::Load, other) => {
                return Err(down(format!("an unexpected reply: {other:?}")));
            }
        }
    }
    // A user must be allowed both: to be told, and to say of what.
    let tracks_record = tracked == 2;
    scripts.loaded(names, tracks_record);
    let server = info::server(&about, &config, tracks_record, scripts.listens);
    Ok(Established { stream, server, scripts, identity, unread })
}

async fn open(node: &RedisNode) -> Result<Box<dyn Stream>, Fault> {
    match &node.endpoint {
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            Ok(Box::new(UnixStream::connect(path).await.map_err(|error| failed(&error))?))
        }
        // No URL leads here.
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(failed(&std::io::ErrorKind::Unsupported.into())),
        Endpoint::Tcp { host, port } => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, *port)).await.map_err(|error| failed(&error))?;
            stream.set_nodelay(true).map_err(|error| failed(&error))?;
            match &node.tls {
                None => Ok(Box::new(stream)),
                #[cfg(feature = "tls")]
                Some(files) => super::tls::wrap(stream, host, files).await.map_err(down),
                #[cfg(not(feature = "tls"))]
                Some(_) => Err(misconfigured("TLS is not compiled in")),
            }
        }
    }
}

/// What the system says, without its number.
fn failed(error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return down("connection refused");
    }
    let text = error.to_string();
    down(text.split(" (os error").next().unwrap_or(&text))
}

#[derive(Clone, Copy)]
enum Question {
    Hello,
    Select,
    Kill,
    Client,
    Track,
    Listen,
    Info,
    Config,
    Load,
}

/// Everything there is to say at first, in one piece.
async fn greeting(
    node: &RedisNode,
    scripts: &Scripts,
    previous: Option<Identity>,
) -> Result<(Vec<u8>, Vec<Question>), Fault> {
    let (mut buffer, mut asked) = (vec![], vec![]);
    let mut ask = |question, parts: &[&[u8]]| {
        encode(&mut buffer, parts);
        asked.push(question);
    };
    // A user without a password logs in with an empty one, never as somebody else.
    let password = password(node).await?.or_else(|| node.user.as_ref().map(|_| String::new()));
    match password {
        Some(password) => {
            let user = node.user.as_deref().unwrap_or("default").as_bytes();
            ask(
                Question::Hello,
                &[b"HELLO", b"3", b"AUTH", user, password.as_bytes(), b"SETNAME", b"tenure"],
            );
        }
        None => ask(Question::Hello, &[b"HELLO", b"3", b"SETNAME", b"tenure"]),
    }
    if node.database != 0 {
        ask(Question::Select, &[b"SELECT", Decimal::of(node.database.into()).as_bytes()]);
    }
    // The server may still have commands of the old connection before it. They must not be executed
    // after what comes now: a late acquire would outlive its release.
    if let Some(Identity { id, address }) = previous {
        ask(Question::Kill, &[b"CLIENT", b"KILL", b"ID", id.as_bytes(), b"ADDR", address.as_bytes()]);
    }
    ask(Question::Client, &[b"CLIENT", b"INFO"]);
    // The server shall say when the node's record changes. It is read, and watched, by the record
    // command. Also when a command of ours changes it: a server that is short of memory may throw
    // it away to make room for that.
    ask(Question::Track, &[b"CLIENT", b"TRACKING", b"ON", b"OPTIN"]);
    ask(Question::Track, &[b"CLIENT", b"CACHING", b"YES"]);
    ask(Question::Info, info::INFO);
    ask(Question::Config, info::CONFIG);
    for text in scripts.texts() {
        ask(Question::Load, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
    }
    ask(Question::Listen, &[b"SUBSCRIBE", scripts.channel.as_bytes()]);
    Ok((buffer, asked))
}

async fn password(node: &RedisNode) -> Result<Option<String>, Fault> {
    match &node.password {
        None => Ok(None),
        Some(Password::Text(password)) => Ok(Some(password.clone())),
        Some(Password::File(path)) => {
            let read = std::fs::read_to_string(path);
            let unread = |error: io::Error| {
                misconfigured(format!("cannot read the password file {}: {error}", path.display()))
            };
            let text = read.map_err(unread)?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
    }
}

/// So many replies, and what came after them.
async fn read_replies(stream: &mut Box<dyn Stream>, count: usize) -> Result<(Vec<Value>, Vec<u8>), Fault> {
    let (mut replies, mut buffer) = (Vec::with_capacity(count), Vec::with_capacity(4096));
    while replies.len() < count {
        while replies.len() < count
            && let Some((reply, length)) = decode(&buffer).map_err(misconfigured)?
        {
            if length > buffer.len() {
                return Err(misconfigured("not the Redis protocol: a reply is too long"));
            }
            buffer.drain(..length);
            match &reply {
                // The server says that we listen in this way, and that we may not by an error.
                Value::Push(Push::Subscribed) => replies.push(reply),
                Value::Push(_) => {}
                // With a wrong password the rest would only say so again.
                Value::Error(message) if replies.is_empty() => return Err(login_error(message)),
                _ => replies.push(reply),
            }
        }
        if replies.len() < count {
            match stream.read_buf(&mut buffer).await {
                Ok(0) => return Err(down("the server closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }
    Ok((replies, buffer))
}

/// What to say about an error at login. A server that does not know the command repeats it in its
/// `ERR`, with the password; errors with a code of their own do not.
fn login_error(message: &str) -> Fault {
    match message.split_whitespace().next() {
        Some("ERR") if message.contains("max number of clients") => {
            down("the server has too many clients (maxclients)")
        }
        Some("ERR") | None => {
            misconfigured("the server does not accept HELLO 3; Tenure needs Redis 7.0 or newer, or Valkey")
        }
        Some("NOAUTH") => misconfigured(
            "the server requires a password (NOAUTH); set a password_file for \
                                         it",
        ),
        Some("WRONGPASS") => misconfigured(
            "wrong password, unknown user, or user disabled (WRONGPASS); fix user and password_file",
        ),
        Some("NOPERM") => misconfigured(message),
        Some(_) => down(message),
    }
}

/// Refuses what is known to be too old: it would take our commands for mistakes, one by one.
fn check_version(server: &[Value]) -> Result<(), Fault> {
    let text_of = |name: &str| {
        server.chunks_exact(2).find_map(|entry| match entry {
            [Value::Text(key), Value::Text(text)] if key == name => Some(text.as_str()),
            _ => None,
        })
    };
    let (Some("redis"), Some(version)) = (text_of("server"), text_of("version")) else { return Ok(()) };
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(..7) => Err(misconfigured(format!("Redis {version} is too old; Tenure needs 7.0 or newer"))),
        _ => Ok(()),
    }
}

/// Reads `id=7 addr=127.0.0.1:5000 ...`. On a unix socket all addresses are alike and tell nobody
/// apart.
fn identity_of(info: &str) -> Option<Identity> {
    let field =
        |name: &str| info.split_whitespace().find_map(|field| field.strip_prefix(name)).map(str::to_owned);
    let identity = Identity { id: field("id=")?, address: field("addr=")? };
    (!identity.address.ends_with(":0")).then_some(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_by_name() {
        let server = |name: &str, version: &str| [text("server"), text(name), text("version"), text(version)];
        let fault = check_version(&server("redis", "6.2.14")).unwrap_err();
        assert_eq!(fault, misconfigured("Redis 6.2.14 is too old; Tenure needs 7.0 or newer"));
        for (name, version) in
            [("redis", "7.0.15"), ("redis", "8.4.0"), ("valkey", "9.1.0"), ("other", "1.0")]
        {
            assert_eq!(check_version(&server(name, version)), Ok(()), "{name} {version}");
        }
    }

    #[test]
    fn an_error_at_login_never_repeats_the_password() {
        let fault = login_error("ERR unknown command 'HELLO', with args beginning with: '3' 'geheim'");
        assert!(!fault.to_string().contains("geheim"), "{fault}");
    }

    #[test]
    fn what_passes_by_itself_is_told_apart_from_what_does_not() {
        let is_misconfigured = |message| matches!(login_error(message), Fault::Misconfigured(_));
        for message in
            ["WRONGPASS invalid username-password pair", "NOAUTH", "NOPERM x", "ERR unknown command 'HELLO'"]
        {
            assert!(is_misconfigured(message), "{message}");
        }
        for message in ["ERR max number of clients reached", "LOADING Redis is loading the dataset"] {
            assert!(!is_misconfigured(message), "{message}");
        }
    }

    #[test]
    fn a_connection_is_known_by_id_and_address() {
        let identity =
            |id: &str, address: &str| Some(Identity { id: id.to_owned(), address: address.to_owned() });
        assert_eq!(identity_of("id=7 addr=127.0.0.1:5000 laddr=x fd=8"), identity("7", "127.0.0.1:5000"));
        assert_eq!(identity_of("id=7 addr=/run/redis.sock:0 fd=8"), None, "all alike on a unix socket");
    }
}
