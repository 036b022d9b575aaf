//! Bytes that are no HTTP, requests that end too early or never, and garbage between them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::Dice;
use tenure_testkit::http::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::target::{SILENCE, Target};
use super::{timed, until_done, waves};
use crate::campaign::Extent;

/// So many attack at the same time: more would measure the attackers.
const ATTACKERS: usize = 4;

/// What somebody sends.
#[derive(Clone, Copy, Debug)]
enum Attack {
    RandomBytes,
    Truncated,
    Pipelined,
    Smuggled,
    TooLarge,
}

const ALL: [Attack; 5] =
    [Attack::RandomBytes, Attack::Truncated, Attack::Pipelined, Attack::Smuggled, Attack::TooLarge];

pub(super) fn run(extent: Extent, mut dice: Dice) -> String {
    Runtime::new().unwrap().block_on(async {
        let target = Target::start(false);
        let address = target.address();
        let mut other = Client::connect(address).await;
        let (each, slow) = (extent.of(100, 15_000) / ATTACKERS, extent.of(50, 250));
        let cycle = async || timed(cycle(&mut other)).await;
        waves(extent, &target, cycle, async || {
            let mut attacks = JoinSet::new();
            for _ in 0..ATTACKERS {
                attacks.spawn(attack(address, each, Dice::new(dice.next())));
            }
            let mut senders = JoinSet::new();
            for _ in 0..slow {
                senders.spawn(send_slowly(address));
            }
            attacks.join_all().await;
            senders.join_all().await;
            u64::try_from(each * ATTACKERS + slow).unwrap()
        })
        .await
    })
}

/// What a client that behaves does.
async fn cycle(client: &mut Client) {
    let mut done = async |path: &str, body: Value| {
        let call = async || {
            let answer = client.post(path, &body).await;
            (answer.status, answer.body)
        };
        until_done(call).await
    };
    let lease = done("/v1/acquire", json!({ "name": "others", "wait_ms": 20_000 })).await;
    done("/v1/release", json!({ "name": "others", "token": lease["token"] })).await;
}

async fn attack(address: SocketAddr, count: usize, mut dice: Dice) {
    for _ in 0..count {
        let bytes = bytes(&mut dice);
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        // It may hang up before it has read everything.
        let _ = stream.write_all(&bytes).await;
        if dice.chance(50) {
            let _ = stream.shutdown().await;
        }
        let mut answer = vec![];
        let _ = timeout(Duration::from_millis(20), stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.contains("HTTP/1.1 500"), "{:?} got {answer}", String::from_utf8_lossy(&bytes));
        sleep(Duration::from_micros(dice.below(2_000))).await;
    }
}

fn bytes(dice: &mut Dice) -> Vec<u8> {
    let good = b"POST /v1/extend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: 28\r\n\r\n{\"name\":\"x\",\"token\":\"t1.aa\"}";
    let garbage = |dice: &mut Dice, most: u64| -> Vec<u8> {
        (0..dice.between(1, most)).map(|_| u8::try_from(dice.below(256)).unwrap_or_default()).collect()
    };
    match dice.pick(&ALL) {
        Attack::RandomBytes => garbage(dice, 2_000),
        Attack::Truncated => good[..dice.index(good.len())].to_vec(),
        Attack::Pipelined => {
            let mut bytes = vec![];
            for _ in 0..dice.between(2, 20) {
                bytes.extend_from_slice(good);
                if dice.chance(20) {
                    bytes.extend(garbage(dice, 50));
                }
            }
            bytes
        }
        Attack::Smuggled => {
            let second = dice.pick(&[
                "Transfer-Encoding: chunked",
                "Content-Length: 3",
                "Transfer-Encoding: x, chunked",
            ]);
            let chunk =
                dice.pick(&["0\r\n\r\n", "ffffffffffffffff\r\nx", "5\r\nhello", "-1\r\n\r\n", "zz\r\n"]);
            format!(
                "POST /v1/extend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n{second}\r\n\r\n{chunk}"
            )
            .into()
        }
        Attack::TooLarge => {
            let long = "x".repeat(usize::try_from(dice.between(10_000, 40_000)).unwrap_or_default());
            let head = "POST /v1/extend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            if dice.chance(50) {
                format!("{head}X: {long}\r\n\r\n").into()
            } else {
                format!("{head}Content-Length: 99999999999\r\n\r\n{long}").into()
            }
        }
    }
}

/// Sends a byte now and then, until it is hung up on, which must come about.
async fn send_slowly(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
    let sending = async {
        for byte in head.bytes().chain(std::iter::repeat(b'x')) {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    assert!(timeout(SILENCE * 5, sending).await.is_ok(), "a slow sender is hung up on");
}
