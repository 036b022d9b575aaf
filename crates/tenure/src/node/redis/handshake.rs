//! From an address to a connection that is ready for commands.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::resp::{Decimal, Value, decode, encode};
use super::script::{NativeRelease, Scripts};
use super::{Endpoint, Password, RedisNode};

/// How long a try to connect may take, from the first packet to the last reply: longer than any round trip, and
/// short enough that a node that comes back is noticed at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream of bytes to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that is ready.
pub(super) struct Established {
    pub(super) stream: Box<dyn Stream>,
    pub(super) scripts: Scripts,
    /// How the server calls this connection.
    pub(super) client_id: Option<i64>,
}

/// Connects, logs in and loads the scripts. `previous` is the client id of the connection before, if one broke.
///
/// # Errors
/// Why not, in words for the user; never with a password.
pub(super) async fn establish(node: Arc<RedisNode>, previous: Option<i64>) -> Result<Established, String> {
    match timeout(CONNECT_TIMEOUT, attempt(&node, previous)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {CONNECT_TIMEOUT:?}")),
    }
}

async fn attempt(node: &RedisNode, previous: Option<i64>) -> Result<Established, String> {
    let mut stream = open(node).await?;
    let (requests, asked) = greeting(node, previous).await?;
    stream.write_all(&requests).await.map_err(|error| error.to_string())?;
    let replies = read_replies(&mut stream, asked.len()).await?;
    let mut scripts = Scripts::new();
    let (mut client_id, mut native, mut names) = (None, NativeRelease::None, vec![]);
    for (question, reply) in asked.into_iter().zip(replies) {
        match (question, reply) {
            (Question::Hello, Value::List(server)) => client_id = number_of(&server, "id"),
            (Question::Hello | Question::Select, Value::Error(message)) => return Err(message),
            (Question::Load, Value::Text(name)) => names.push(Some(name)),
            // Not allowed to load: the text is sent with every command. Anything else means not ready.
            (Question::Load, Value::Error(message)) if message.starts_with("NOPERM") => names.push(None),
            (Question::Load, Value::Error(message)) => return Err(message),
            (Question::Native, Value::List(commands)) => native = native_of(&commands),
            // An older connection that is gone already, or a server that does not tell: both are fine.
            (Question::Kill | Question::Native | Question::Select, _) => {}
            (Question::Hello | Question::Load, other) => {
                return Err(format!("an unexpected reply: {other:?}"));
            }
        }
    }
    let names = names.try_into().map_err(|_| "an unexpected number of scripts".to_owned())?;
    scripts.loaded(names, native);
    Ok(Established { stream, scripts, client_id })
}

async fn open(node: &RedisNode) -> Result<Box<dyn Stream>, String> {
    let failed = |error: io::Error| error.to_string();
    match &node.endpoint {
        Endpoint::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
        Endpoint::Tcp { host, port } => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, *port)).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            match &node.tls {
                None => Ok(Box::new(stream)),
                #[cfg(feature = "tls")]
                Some(files) => super::tls::wrap(stream, host, files).await,
                #[cfg(not(feature = "tls"))]
                Some(_) => Err("TLS is not compiled in".to_owned()),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Question {
    Hello,
    Select,
    Kill,
    Native,
    Load,
}

/// Everything there is to say at first, in one piece.
async fn greeting(node: &RedisNode, previous: Option<i64>) -> Result<(Vec<u8>, Vec<Question>), String> {
    let (mut buffer, mut asked) = (vec![], vec![]);
    let mut ask = |question, parts: &[&[u8]]| {
        encode(&mut buffer, parts);
        asked.push(question);
    };
    match password(node).await? {
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
    // The server may still have commands of the old connection before it. They must not be executed after
    // what comes now: a late acquire would outlive its release.
    if let Some(previous) = previous.and_then(|id| u64::try_from(id).ok()) {
        ask(Question::Kill, &[b"CLIENT", b"KILL", b"ID", Decimal::of(previous).as_bytes()]);
    }
    ask(Question::Native, &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", b"del*"]);
    for text in Scripts::new().texts() {
        ask(Question::Load, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
    }
    Ok((buffer, asked))
}

async fn password(node: &RedisNode) -> Result<Option<String>, String> {
    match &node.password {
        None => Ok(None),
        Some(Password::Text(password)) => Ok(Some(password.clone())),
        Some(Password::File(path)) => {
            let read = std::fs::read_to_string(path);
            let text = read.map_err(|error| format!("password file {}: {error}", path.display()))?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
    }
}

async fn read_replies(stream: &mut Box<dyn Stream>, count: usize) -> Result<Vec<Value>, String> {
    let (mut replies, mut buffer) = (Vec::with_capacity(count), Vec::with_capacity(4096));
    while replies.len() < count {
        while let Some((reply, length)) = decode(&buffer)? {
            buffer.drain(..length);
            // With a wrong password the rest would only say so again.
            if let (true, Value::Error(message)) = (replies.is_empty(), &reply) {
                return Err(message.clone());
            }
            replies.push(reply);
        }
        if replies.len() < count {
            match stream.read_buf(&mut buffer).await {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(replies)
}

fn number_of(map: &[Value], name: &str) -> Option<i64> {
    map.chunks_exact(2).find_map(|entry| match entry {
        [Value::Text(key), Value::Number(number)] if key == name => Some(*number),
        _ => None,
    })
}

fn native_of(commands: &[Value]) -> NativeRelease {
    let has =
        |name: &str| commands.iter().any(|command| matches!(command, Value::Text(text) if text == name));
    if has("delifeq") {
        NativeRelease::DelIfEq
    } else if has("delex") {
        NativeRelease::DelEx
    } else {
        NativeRelease::None
    }
}
