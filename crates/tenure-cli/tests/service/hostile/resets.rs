//! HTTP/2 streams that are taken back at once, frames that are none, and handshakes that hang.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tenure_testkit::Dice;
use tenure_testkit::http2::{Client, Frames, Kind, encrypted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::target::Target;
use super::{timed, until_done, waves};
use crate::campaign::Extent;

/// So many attack at the same time: more would measure the attackers.
const ATTACKERS: usize = 4;

/// So many calls are made and taken back on one connection, if it is let.
const CALLS: u32 = 100;

pub(super) fn run(extent: Extent, mut dice: Dice) -> String {
    Runtime::new().unwrap().block_on(async {
        let target = Target::start(true);
        let (address, authority) = (target.address(), target.authority.file());
        let mut other = Client::connect(address, &authority, &target.token).await;
        let each = extent.of(200, 10_000) / ATTACKERS;
        let cycle = async || timed(cycle(&mut other)).await;
        waves(extent, &target, cycle, async || {
            let mut attacks = JoinSet::new();
            for _ in 0..ATTACKERS {
                let (authority, token) = (authority.clone(), target.token.clone());
                attacks.spawn(attack(address, authority, token, each, Dice::new(dice.next())));
            }
            attacks.join_all().await.into_iter().sum()
        })
        .await
    })
}

/// What a client that behaves does.
async fn cycle(client: &mut Client) {
    let ask = json!({ "name": "others", "wait_ms": 20_000 });
    let lease = until_done(async || client.post("acquire", &ask).await).await;
    let given = json!({ "name": "others", "token": lease["token"] });
    until_done(async || client.post("release", &given).await).await;
}

async fn attack(address: SocketAddr, authority: PathBuf, token: String, count: usize, mut dice: Dice) -> u64 {
    let mut sent = 0;
    while sent < count {
        sent += match dice.below(4) {
            0 | 1 => {
                let token = if dice.chance(50) { &token } else { "nobody's" };
                send(address, &authority, calls_and_resets(token)).await
            }
            2 => send(address, &authority, frames(&mut dice)).await,
            _ => hang(address, &mut dice).await,
        };
        sleep(Duration::from_micros(dice.below(20_000))).await;
    }
    u64::try_from(sent).unwrap()
}

/// Calls that are taken back at once.
fn calls_and_resets(token: &str) -> (usize, Frames) {
    let mut frames = Frames::of_new_connection();
    for number in 0..CALLS {
        let stream = 2 * number + 1;
        frames.call(stream, "acquire", token, r#"{"name":"wanted","ttl_ms":200,"wait_ms":60000}"#);
        frames.reset(stream);
    }
    (usize::try_from(CALLS).unwrap(), frames)
}

/// Many frames of one kind, well formed or not: pings and settings that want an answer each, heads
/// that never end, resets of streams that are not there.
fn frames(dice: &mut Dice) -> (usize, Frames) {
    let (kind, count) = (dice.pick(&Kind::ALL), dice.between(1, 200));
    let is_sound = dice.chance(50);
    let mut frames = Frames::of_new_connection();
    for _ in 0..count {
        let length = match kind {
            Kind::Ping if is_sound => 8,
            Kind::Reset | Kind::WindowUpdate if is_sound => 4,
            Kind::Settings if is_sound => 6 * dice.below(4),
            _ => dice.below(64),
        };
        let payload = noise(dice, length);
        let flags = if is_sound { 0 } else { u8::try_from(dice.below(256)).unwrap() };
        let of_connection = matches!(kind, Kind::Ping | Kind::Settings | Kind::GoAway);
        let stream = if is_sound && of_connection { 0 } else { u32::try_from(dice.below(7)).unwrap() };
        frames.push(kind, flags, stream, &payload);
    }
    (usize::try_from(count).unwrap(), frames)
}

/// Sends as much of it as is read. It may be hung up on long before.
async fn send(address: SocketAddr, authority: &Path, (count, frames): (usize, Frames)) -> usize {
    let mut stream = encrypted(address, authority).await;
    let _ = stream.write_all(frames.bytes()).await;
    let _ = timeout(Duration::from_millis(20), stream.read_to_end(&mut vec![])).await;
    count
}

fn noise(dice: &mut Dice, length: u64) -> Vec<u8> {
    (0..length).map(|_| u8::try_from(dice.below(256)).unwrap()).collect()
}

/// A handshake that ends in garbage, or does not go on.
async fn hang(address: SocketAddr, dice: &mut Dice) -> usize {
    let Ok(mut stream) = TcpStream::connect(address).await else { return 1 };
    let length = dice.below(300);
    let bytes = noise(dice, length);
    let _ = stream.write_all(&[&[22, 3, 1][..], &bytes].concat()).await;
    let _ = timeout(Duration::from_millis(dice.below(20)), stream.read_to_end(&mut vec![])).await;
    1
}
