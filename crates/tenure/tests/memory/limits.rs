//! Names, options and node lists at and beyond their limits.

use tenure::*;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn any_text_up_to_1024_bytes_is_a_name_of_its_own() {
    let nodes = nodes::<3>();
    let locks = builder(&nodes).prefix("app:").tokio_time().build().unwrap();
    let longest = "x".repeat(1_024);
    let names =
        ["a", "\0", "a\0b", &longest, "مرحبا بالعالم", "שלום", "🔒🔑", "caf\u{e9}", "cafe\u{301}", " "];
    let mut guards = vec![];
    for name in names {
        let guard = locks.lock(name).acquire().await.unwrap();
        assert_eq!(guard.name(), name);
        guards.push(guard);
        assert!(locks.lock(name).try_acquire().await.unwrap().is_none(), "{name:?}");
    }
    let mut expected: Vec<String> = names.iter().map(|name| format!("app:{name}")).collect();
    expected.sort();
    assert_eq!(nodes[0].keys(), expected, "exactly prefix and name, nothing normalised");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_not_allowed_say_what_is() {
    let locks = paused(&nodes::<3>());
    let message = |error: AcquireError| {
        assert!(matches!(error, AcquireError::InvalidName { .. }), "{error}");
        error.to_string()
    };
    insta::assert_snapshot!(message(locks.lock("").acquire().await.unwrap_err()), @r#"lock "" cannot be acquired: the lock name is empty; expected 1 to 1024 bytes of UTF-8"#);
    insta::assert_snapshot!(message(locks.lock("tenure~queue:{x}").acquire().await.unwrap_err()), @r#"lock "tenure~queue:{x}" cannot be acquired: the lock's name, or its key on the nodes (prefix + name), starts with "tenure~", which is reserved for Tenure's own keys; use another name or prefix"#);
    let long = message(locks.lock("é".repeat(513)).acquire().await.unwrap_err());
    assert!(long.ends_with("the lock name has 1026 bytes; expected 1 to 1024 bytes of UTF-8"), "{long}");
    let long = message(locks.lock("x".repeat(1_025)).acquire().await.unwrap_err());
    assert!(long.ends_with("the lock name has 1025 bytes; expected 1 to 1024 bytes of UTF-8"), "{long}");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_outside_its_bounds_says_what_is_allowed() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let error = |ttl| {
        let lock = locks.lock("x").ttl(ttl);
        async move { lock.acquire().await.unwrap_err().to_string() }
    };
    insta::assert_snapshot!(error(ms(0)).await, @r#"lock "x" cannot be acquired: a ttl of 0ns is too short; expected 50ms to 60s"#);
    insta::assert_snapshot!(error(ms(49)).await, @r#"lock "x" cannot be acquired: a ttl of 49ms is too short; expected 50ms to 60s"#);
    insta::assert_snapshot!(error(secs(365 * 86_400)).await, @r#"lock "x" cannot be acquired: a ttl of 31536000s is too long; expected 50ms to 60s. To hold the lock longer, extend it, or raise max_ttl for every client of these nodes"#);
    for ttl in [ms(50), secs(60)] {
        locks.lock("x").ttl(ttl).acquire().await.unwrap().release().await.unwrap();
    }
    let patient = builder(&crate::support::nodes::<3>()).max_ttl(secs(86_400)).tokio_time().build().unwrap();
    patient.lock("x").ttl(secs(86_400)).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn options_that_do_not_fit_together_are_refused() {
    let locks = paused(&nodes::<3>());
    let lock = locks.lock("x").ttl(secs(1));
    for bad in [
        lock.clone().node_timeout(ms(501)),
        lock.clone().node_timeout(ms(0)),
        lock.clone().drift(Drift::new(600_000, ms(0))),
        lock.clone().guard_band(secs(66)),
        lock.clone().min_margin(2),
        lock.clone().max_hold(MaxHold::AtMost(ms(999))),
        lock.clone().retry(Retry::default().tries_max(0)),
    ] {
        let error = bad.acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::InvalidOption { .. }), "{error}");
    }
    let good = lock.node_timeout(ms(100)).drift(Drift::new(0, ms(0))).guard_band(ms(0));
    assert_eq!(good.acquire().await.unwrap().valid_for(), secs(1));
}

#[test]
fn node_lists_that_cannot_work_say_why() {
    let message = |builder: Builder| builder.build().unwrap_err().to_string();
    let node = MemoryNode::new("a");
    insta::assert_snapshot!(message(Locks::builder()), @r#"cannot manage locks: expected 1 to 15 nodes, got 0; use 3 or 5"#);
    insta::assert_snapshot!(message(builder(&nodes::<16>())), @r#"cannot manage locks: expected 1 to 15 nodes, got 16; use 3 or 5"#);
    insta::assert_snapshot!(message(Locks::builder().node(&node).node(MemoryNode::new("b")).node(&node)), @"cannot manage locks: node memory:a is listed twice; every node must be an independent store");
    insta::assert_snapshot!(message(Locks::builder().node(&node).prefix("tenure~x")), @r#"cannot manage locks: the lock's name, or its key on the nodes (prefix + name), starts with "tenure~", which is reserved for Tenure's own keys; use another name or prefix"#);
    insta::assert_snapshot!(message(Locks::builder().node(&node).prefix("p".repeat(257))), @"cannot manage locks: the prefix has 257 bytes; expected at most 256");
    insta::assert_snapshot!(message(Locks::builder().node(&node).max_ttl(secs(86_401))), @"cannot manage locks: a max_ttl of 86401s is out of range; expected 50ms to 86400s");
}

/// An even number works, with a majority of N/2 + 1; it just tolerates no more failures than one
/// node less.
#[tokio::test(start_paused = true)]
async fn every_number_of_nodes_needs_its_majority() {
    async fn check<const N: usize>() {
        for down in 0..=N {
            let nodes = nodes::<N>();
            fail(&nodes[..down], &Faults::unreachable());
            let acquired = paused(&nodes).lock("x").try_acquire().await.is_ok();
            assert_eq!(acquired, N - down > N / 2, "{down} of {N} nodes down");
        }
    }
    check::<1>().await;
    check::<2>().await;
    check::<3>().await;
    check::<4>().await;
    check::<5>().await;
    check::<7>().await;
    check::<15>().await;
}
