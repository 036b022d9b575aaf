//! Three instances behind a proxy, and the clients of the documents in curl, Python and Node that
//! count under one lock, while instances are killed, drained and started again: no increment is
//! lost, nobody gives up, and fences grow.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure_testkit::{Balancer, Client, Dice, nursery, require};

use crate::campaign::{Extent, campaign, say};
use crate::instances::{Instance, Nodes};

pub(crate) const HAPROXY: &str = include_str!("../../../../docs/reference/proxies/haproxy.cfg");
const NGINX: &str = include_str!("../../../../docs/reference/proxies/nginx.conf");

/// The languages of the clients: what runs their driver.
const CLIENTS: [(&str, &str); 3] =
    [("python3", "increment.py"), ("node", "increment.mjs"), ("sh", "increment.sh")];

const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Runs the driver of a client of the documents, which knows where these are.
pub(crate) fn driver((program, script): (&str, &str), arguments: &[&str]) -> Client {
    require(program);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = nursery::command(program);
    command.arg(folder.join("tests/service/drivers").join(script)).args(arguments);
    command.env("CLIENTS", folder.join("../../docs/reference/clients"));
    command.stdout(std::process::Stdio::piped());
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    Client::of(command)
}

#[test]
fn clients_in_three_languages_behind_haproxy_lose_no_increment() {
    campaign("counter behind HAProxy", |extent, dice| {
        count(extent, dice, |ports| Balancer::haproxy(HAPROXY, ports))
    });
}

#[test]
fn clients_in_three_languages_behind_nginx_lose_no_increment() {
    campaign("counter behind nginx", |extent, dice| {
        count(extent, dice, |ports| Balancer::nginx(NGINX, ports))
    });
}

fn count(extent: Extent, mut dice: Dice, balancer: impl Fn(&[u16]) -> Balancer) -> String {
    let nodes = Nodes::start();
    let mut instances: [Instance; 3] = nodes.instances();
    let balancer = balancer(&instances.each_ref().map(Instance::port));
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("counter");
    std::fs::write(&file, "0 0\n").unwrap();
    let (clients, increments) = extent.of((6, 10), (16, 200));
    let (url, times) = (format!("http://127.0.0.1:{}", balancer.port()), increments.to_string());
    let arguments = [&url, file.to_str().unwrap(), &times];
    let begun = Instant::now();
    let mut running: Vec<(&str, Client)> = (0..clients)
        .map(|number| CLIENTS[number % CLIENTS.len()])
        .map(|client| (client.0, driver(client, &arguments)))
        .collect();
    let (mut kills, mut drains, mut told) = (0, 0, Instant::now());
    while !running.is_empty() {
        let chosen = dice.index(instances.len());
        // One of each first, so that a slice has both.
        if kills <= drains && (kills == 0 || dice.chance(50)) {
            instances[chosen].kill();
            kills += 1;
        } else {
            instances[chosen].drain();
            drains += 1;
        }
        std::thread::sleep(Duration::from_millis(dice.between(100, extent.of(300, 1_000))));
        instances[chosen].launch(&nodes);
        std::thread::sleep(Duration::from_millis(dice.between(200, extent.of(400, 2_000))));
        running.retain_mut(|(program, client)| {
            let ended = client.has_ended();
            assert!(!ended || client.succeeds(), "a client under {program} gave up");
            !ended
        });
        assert!(begun.elapsed() < PATIENCE, "{} clients hang", running.len());
        if told.elapsed() > Duration::from_secs(20) {
            told = Instant::now();
            say(&format!(
                "{} {kills} kills, {drains} drains",
                std::fs::read_to_string(&file).unwrap().trim()
            ));
        }
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let counted: usize = text.split(' ').next().unwrap().parse().unwrap();
    let (expected, took) = (clients * increments, begun.elapsed().as_secs());
    assert_eq!(counted, expected, "increments were lost");
    format!(
        "{counted} of {expected} increments by {clients} clients in {took} s, {kills} kills, {drains} drains"
    )
}
