//! The how-to pages: what they show is run, and is what happens. Their Rust code is run as
//! documentation tests of the library.

mod containers;
mod cron;
mod monitoring;
mod page;
mod settings;

use tenure_testkit::{PostgresServer, RedisServer, installed};

use crate::deployment::{Deployment, embedded_store};
use page::{Page, ROOT};

/// Three servers that forget nothing.
fn three_nodes() -> Deployment {
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no"];
    let servers: [RedisServer; 3] = RedisServer::start_many(&options);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let deployment = Deployment::of(servers.into(), |_| urls.join(","));
    crate::deployment::wait_until(|| deployment.tenure(&["run", "warm-up", "--", "true"]).code == Some(0));
    deployment
}

#[test]
fn choosing_a_ttl_and_nodes() {
    let deployment = three_nodes();
    let mut page = Page::open("docs/how-to/choose-ttl-and-nodes.md");
    for (number, server) in (1..).zip(&deployment.servers) {
        page = page.with(&format!("lock-{number}:6379"), format!("127.0.0.1:{}", server.port()));
    }
    page.run(&deployment, &[]);
}

#[test]
fn fencing_with_postgresql() {
    let Some(server) = PostgresServer::start() else { return };
    let Some(_) = installed("psql") else { return };
    Page::open("docs/how-to/fence-postgresql.md").run(&embedded_store(), &server.environment());
}

#[test]
fn fencing_with_sqlite() {
    let Some(_) = installed("sqlite3") else { return };
    Page::open("docs/how-to/fence-sqlite.md").run(&embedded_store(), &[]);
}

#[test]
fn fencing_with_redis() {
    let (server, deployment) = (RedisServer::start(&[]), embedded_store());
    deployment.write("claim.lua", tenure::fenced::REDIS_CLAIM);
    deployment.write("write.lua", tenure::fenced::REDIS_WRITE);
    let page = Page::open("docs/how-to/fence-redis.md");
    page.with("redis-cli", format!("redis-cli -p {}", server.port())).run(&deployment, &[]);
}

#[test]
fn monitoring_with_doctor() {
    let Some(_) = installed("jq") else { return };
    Page::open("docs/how-to/monitoring.md").run(&three_nodes(), &[]);
}

#[test]
fn running_a_cron_job_on_one_of_many_machines() {
    Page::open("docs/how-to/cron.md").run(&embedded_store(), &[]);
}

#[test]
fn running_the_tool_in_containers() {
    if !containers::may_make_namespaces() {
        return tenure_testkit::skip("this user may not make namespaces");
    }
    Page::open("docs/how-to/containers.md").run(&embedded_store(), &[]);
}

#[test]
fn electing_a_leader() {
    Page::open("docs/how-to/leader-election.md").run(&embedded_store(), &[]);
}

#[test]
fn sharing_jobs_among_workers() {
    Page::open("docs/how-to/worker-pool.md").run(&embedded_store(), &[]);
}

#[test]
fn testing_scripts() {
    Page::open("docs/how-to/test-your-code.md").run(&embedded_store(), &[]);
}

#[test]
fn moving_from_flock() {
    let deployment = embedded_store();
    let folder = deployment.folder().display().to_string();
    Page::open("docs/how-to/move-from-flock.md").with("/tmp/", format!("{folder}/")).run(&deployment, &[]);
}

#[test]
fn moving_from_redlock() {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let page = Page::open("docs/how-to/move-from-redlock.md");
    // The settings are those of the page, with our servers in the place of its own.
    let mut settings = page.block("toml").to_owned();
    let mut page = page;
    for (number, server) in (1..).zip(&servers) {
        settings = settings.replace(&format!("redis://lock-{number}:6379"), &server.url());
        page = page.with(&format!("700{number}"), server.port().to_string());
    }
    let deployment = Deployment::of(servers.into(), |_| String::new());
    deployment.write("tenure.toml", &settings);
    page.without("TENURE_NODES").run(&deployment, &[]);
}

#[test]
fn moving_from_redisson() {
    let server = RedisServer::start(&[]);
    let (url, port) = (server.url(), server.port().to_string());
    let deployment = Deployment::of(vec![server], |_| url);
    let page = Page::open("docs/how-to/move-from-redisson.md").with("7001", port);
    page.run(&deployment, &[("TENURE_PREFIX", String::new())]);
}

#[test]
fn moving_from_advisory_locks() {
    let Some(server) = PostgresServer::start() else { return };
    let Some(_) = installed("psql") else { return };
    Page::open("docs/how-to/move-from-advisory-locks.md").run(&embedded_store(), &server.environment());
}

/// A page that nobody runs is wrong sooner or later.
#[test]
fn every_page_has_a_test() {
    let (tests, code) = (include_str!("how_to.rs"), include_str!("../../../tenure/src/lib.rs"));
    for entry in std::fs::read_dir(format!("{ROOT}/docs/how-to")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let is_run = tests.contains(&format!("open(\"docs/how-to/{name}.md\")"));
        assert_eq!(is_run, text.contains("cli/how_to.rs -->\n```console\n"), "who runs {name}?");
        let is_compiled = code.contains(&format!("docs/how-to/{name}.md"));
        assert!(is_compiled || !text.contains("\n```rust\n"), "the code of {name} is not run");
        // Their settings are tried in `how_to/settings.rs`; permissions in the library's tests.
        let is_tried = ["run-nodes", "run-service"].contains(&name);
        assert!(is_run || is_compiled || is_tried, "{name} shows nothing that is run");
    }
}
