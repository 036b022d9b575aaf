//! What a server says about itself, read from `INFO` and `CONFIG GET`.

use std::time::Duration;

use tenure_core::Life;

use super::resp::Value;
use crate::node::{Persistence, Role, Server};

/// The question, in the sections we need.
pub(super) const INFO: &[&[u8]] = &[b"INFO", b"server", b"replication", b"memory", b"persistence", b"cpu"];

/// The settings that `INFO` does not tell.
pub(super) const CONFIG: &[&[u8]] =
    &[b"CONFIG", b"GET", b"appendfsync", b"no-appendfsync-on-rewrite", b"save"];

/// Puts the answers together. What this user may not see is left out, and named.
pub(super) fn server(info: &str, config: &Value, tracks_record: bool, listens: bool) -> Server {
    let mut unprotected = vec![];
    if info.is_empty() {
        unprotected.push(
            "INFO is not permitted: a restart that kept part of the data, a failover, replicas, eviction \
             and a server listed twice go unnoticed",
        );
    }
    if !matches!(config, Value::List(_)) {
        unprotected.push("CONFIG GET is not permitted: even a server that syncs every write is quarantined");
    }
    if !tracks_record {
        unprotected.push(
            "CLIENT TRACKING is not permitted: a node that copies another's data while connected goes \
             unnoticed",
        );
    }
    if !listens {
        unprotected.push("SUBSCRIBE is not permitted: waiters are not woken and have to poll");
    }
    let field = |name: &str| field(info, name);
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let seconds = |name: &str| {
        let seconds = field(name)?.parse::<f64>().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let version = field("valkey_version").map(|version| format!("valkey {version}"));
    let version = version.or_else(|| field("redis_version").map(|version| format!("redis {version}")));
    // A server that does not name its lineage is one by itself, as far as anybody can see.
    let life = field("run_id").map(|process| (process, field("master_replid").unwrap_or(process)));
    let unnamed = match life {
        None => {
            Some("a restart that kept part of the data, a failover and a server listed twice go unnoticed")
        }
        Some(_) if field("master_replid").is_none() => Some("a failover goes unnoticed"),
        Some(_) => None,
    };
    Server {
        version: version.map(Into::into),
        role: role(field("redis_mode").or_else(|| field("server_mode")), field("role")),
        life: life.map(|(process, lineage)| Life { process: process.into(), lineage: lineage.into() }),
        promoted: field("master_replid2").is_some_and(|id| id.chars().any(|digit| digit != '0')),
        replicas: number("connected_slaves").try_into().unwrap_or(u32::MAX),
        cpu_time: seconds("used_cpu_user").zip(seconds("used_cpu_sys")).map(|(user, sys)| user + sys),
        memory_used: field("used_memory").and_then(|text| text.parse().ok()),
        persistence: persistence(info, config),
        eviction: field("maxmemory_policy")
            .filter(|policy| number("maxmemory") > 0 && *policy != "noeviction")
            .map(Into::into),
        unprotected,
        // A user who may not ask is told so.
        unnamed: unnamed.filter(|_| !info.is_empty()),
        intact: false,
    }
}

fn role(mode: Option<&str>, role: Option<&str>) -> Role {
    match (mode, role) {
        (Some("cluster"), _) => Role::Cluster,
        (Some("sentinel"), _) => Role::Sentinel,
        (_, Some("master")) => Role::Master,
        (_, Some("slave" | "replica")) => Role::Replica,
        _ => Role::Unknown,
    }
}

fn persistence(info: &str, config: &Value) -> Persistence {
    match (field(info, "aof_enabled"), setting(config, "appendfsync"), setting(config, "save")) {
        (Some("1"), Some("always"), _) if setting(config, "no-appendfsync-on-rewrite") == Some("no") => {
            Persistence::Always
        }
        (Some("1"), ..) => Persistence::Log,
        (Some("0"), _, Some("")) => Persistence::None,
        (Some("0"), _, Some(_)) => Persistence::Snapshots,
        _ => Persistence::Unknown,
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

fn setting<'a>(config: &'a Value, name: &str) -> Option<&'a str> {
    let Value::List(list) = config else { return None };
    list.chunks_exact(2).find_map(|pair| match pair {
        [Value::Text(key), Value::Text(text)] if key == name => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO_TEXT: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:aa\r\n\
        # Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaster_replid:bb\r\nmaster_replid2:0000\r\n\
        # Memory\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\nused_memory:4096\r\n\
        # Persistence\r\naof_enabled:1\r\n# CPU\r\nused_cpu_sys:0.250000\r\nused_cpu_user:1.500000\r\n";

    fn config(pairs: &[(&str, &str)]) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        Value::List(pairs.iter().flat_map(|(key, value)| [text(key), text(value)]).collect())
    }

    #[test]
    fn a_server_is_read_from_its_own_words() {
        let always = config(&[("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no"), ("save", "")]);
        let server = server(INFO_TEXT, &always, true, true);
        assert_eq!(server.version.as_deref(), Some("redis 7.0.15"));
        assert_eq!((server.role.clone(), server.replicas, server.promoted), (Role::Master, 2, false));
        assert_eq!(server.eviction.as_deref(), Some("allkeys-lru"));
        assert_eq!(server.persistence, Persistence::Always);
        assert_eq!((server.cpu_time, server.memory_used), (Some(Duration::from_millis(1_750)), Some(4_096)));
        assert!(server.facts().durable && server.unprotected.is_empty());
    }

    #[test]
    fn only_a_log_that_is_synced_before_every_reply_is_durable() {
        for pairs in [
            [("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "no")],
            [("appendfsync", "always"), ("no-appendfsync-on-rewrite", "yes")],
        ] {
            assert!(!server(INFO_TEXT, &config(&pairs), true, true).facts().durable, "{pairs:?}");
        }
        let promoted = INFO_TEXT.replace("master_replid2:0000", "master_replid2:00ab");
        let always = config(&[("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")]);
        assert!(server(&promoted, &always, true, true).facts().promoted, "it may have been a replica");
    }

    #[test]
    fn replicas_clusters_and_sentinels_are_unfit() {
        for (from, to) in
            [("role:master", "role:slave"), ("standalone", "cluster"), ("standalone", "sentinel")]
        {
            let info = INFO_TEXT.replace(from, to);
            assert!(server(&info, &Value::Null, true, true).facts().unfit.is_some(), "{to}");
        }
    }

    #[test]
    fn a_server_that_does_not_say_who_it_is_is_told_of_and_refused_where_the_guard_is_strict() {
        let always = config(&[("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no"), ("save", "")]);
        let info = INFO_TEXT.replace("connected_slaves:2", "connected_slaves:0");
        let info = info.replace("allkeys-lru", "noeviction");
        assert_eq!(server(&info, &always, true, true).facts().doubtful, None);
        let anonymous = server(&info.replace("run_id:aa\r\n", ""), &always, true, true);
        assert!(anonymous.unnamed.is_some_and(|off| off.contains("listed twice")));
        let facts = anonymous.facts();
        assert!(facts.life.is_none() && facts.doubtful.is_some_and(|why| why.contains("run_id")));
        let alone = server(&info.replace("master_replid:bb\r\n", ""), &always, true, true);
        assert_eq!(alone.unnamed, Some("a failover goes unnoticed"));
        assert!(alone.facts().doubtful.is_some());
        let life = alone.life.expect("its process is known");
        assert_eq!((&*life.process, &*life.lineage), ("aa", "aa"));
    }

    #[test]
    fn what_a_user_may_not_see_is_named() {
        let denied = Value::Error("NOPERM".to_owned());
        assert_eq!(server("", &denied, false, false).unprotected.len(), 4);
    }
}
