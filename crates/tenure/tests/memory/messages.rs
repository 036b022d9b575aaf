//! The exact words of every error: they name the lock and the nodes, and say what to do.

use tenure::*;
use tokio::time::sleep;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn contended() {
    let nodes = nodes::<3>();
    let (holder, asker) = (paused(&nodes), paused(&nodes));
    let _guard = holder.lock("invoice:42").acquire().await.unwrap();
    let error = asker.lock("invoice:42").wait(ms(0)).acquire().await.unwrap_err();
    insta::assert_snapshot!(error, @r#"lock "invoice:42" is held by this process: 0 of 3 nodes granted it, 2 needed (memory:0: held by another client for 33.0 s more; memory:1: held by another client for 33.0 s more; memory:2: not waited for). Wait longer, or retry in 33.0 s, when it is free unless renewed"#);
}

#[tokio::test(start_paused = true)]
async fn contended_although_some_nodes_are_down() {
    let nodes = nodes::<5>();
    let (holder, asker) = (paused(&nodes), paused(&nodes));
    tokio::join!(holder.ready(), asker.ready());
    fail(&nodes[..1], &Faults::unreachable());
    fail(&nodes[1..2], &Faults::error("LOADING Redis is loading the dataset in memory"));
    let _guard = holder.lock("x").acquire().await.unwrap();
    let error = asker.lock("x").wait(ms(120)).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { .. }));
    let message = error.to_string();
    let (beginning, _) = message.split_once(" after").unwrap();
    insta::assert_snapshot!(beginning, @r#"lock "x" is held by this process (we are first of 1 in line): 0 of 5 nodes granted it, 3 needed"#);
    assert!(
        message.contains(
            "memory:0: unreachable: connection refused; memory:1: error \"LOADING Redis is loading"
        ),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn unavailable() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    locks.ready().await;
    nodes[0].set_faults(Faults::silent());
    nodes[1].set_faults(Faults::unreachable());
    nodes[2].set_faults(Faults::error("READONLY You can't write against a read only replica."));
    let error = locks.lock("invoice:42").try_acquire().await.unwrap_err();
    insta::assert_snapshot!(error, @r#"lock "invoice:42" is unavailable: 3 of 5 nodes cannot vote, 3 votes needed. memory:0: no answer in time; memory:1: unreachable: connection refused; memory:2: error "READONLY You can't write against a read only replica.". Check that these nodes are up and reachable, then retry"#);
}

#[tokio::test(start_paused = true)]
async fn too_late() {
    let nodes = nodes::<1>();
    let locks = paused(&nodes);
    let mut acquire = Box::pin(locks.lock("x").ttl(secs(1)).try_acquire());
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(acquire.as_mut().poll(cx))).await.is_pending());
    tokio::task::yield_now().await;
    tokio::time::advance(secs(1)).await;
    insta::assert_snapshot!(acquire.await.unwrap_err(), @r#"lock "x" was granted too late: its ttl of 1s had run out when a majority had answered (memory:0: granted). Use a longer ttl, or find out what delayed this process or the nodes"#);
}

#[tokio::test(start_paused = true)]
async fn not_extended() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").max_hold(MaxHold::AtMost(secs(60))).acquire().await.unwrap();
    nodes[0].set_faults(Faults::silent());
    nodes[1].set_faults(Faults::unreachable());
    insta::assert_snapshot!(guard.extend().await.unwrap_err(), @r#"lock "x" was not extended: 2 of 3 nodes did not answer, 2 answers needed. memory:0: no answer in time; memory:1: unreachable: connection refused. It is still valid for 29.6 s. Check that these nodes are up and reachable, then retry"#);
    fail(&nodes, &Faults::none());
    nodes[0].forget();
    nodes[1].set_faults(Faults::unreachable());
    insta::assert_snapshot!(guard.extend().await.unwrap_err(), @r#"lock "x" was not extended: fewer than the 2 nodes it needs extended it (memory:0: not held; memory:1: unreachable: connection refused; memory:2: granted). It is still valid for 29.6 s. Retry, or acquire it again"#);
    insta::assert_snapshot!(guard.extend_for(secs(61)).await.unwrap_err(), @r#"lock "x" cannot be extended: a ttl of 61s is too long; expected 50ms to 60s. To hold the lock longer, extend it, or raise max_ttl for every client of these nodes"#);
    insta::assert_snapshot!(guard.extend_for(secs(60)).await.unwrap_err(), @r#"lock "x" cannot be extended: that would exceed its max_hold. It is still valid for 29.6 s. Release it and acquire it again, or use a larger max_hold"#);
    fail(&nodes, &Faults::none());
    nodes[2].forget();
    insta::assert_snapshot!(guard.extend().await.unwrap_err(), @r#"lock "x" is lost: 2 of 3 nodes no longer hold it for us (memory:0: not held; memory:1: granted; memory:2: not held). Stop the work it protects"#);
    let locks = paused(&crate::support::nodes::<3>());
    let mut guard = locks.lock("y").renewal(Renewal::Off).acquire().await.unwrap();
    sleep(secs(30)).await;
    insta::assert_snapshot!(guard.extend().await.unwrap_err(), @r#"lock "y" has expired and cannot be extended. Stop the work it protects, then acquire it again"#);
}

#[tokio::test(start_paused = true)]
async fn not_released() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    fail(&nodes[..2], &Faults::silent());
    insta::assert_snapshot!(guard.release().await.unwrap_err(), @r#"lock "x" may still be held: 2 of 3 nodes did not answer, 2 answers needed. memory:0, memory:1: no answer in time. It expires within 33.3 s. Check that these nodes are up and reachable, then retry"#);
    fail(&nodes, &Faults::none());
    let guard = locks.lock("y").ttl(secs(1)).renewal(Renewal::Off).acquire().await.unwrap();
    sleep(secs(2)).await;
    let _next = paused(&nodes).lock("y").acquire().await.unwrap();
    insta::assert_snapshot!(guard.release().await.unwrap_err(), @r#"lock "y" is not held: it expired, was already released, was ended by a change of the node list, or the token belongs to another lock. Someone else may have held it since; use a longer ttl or extend it in time (memory:0: not held; memory:1: not held; memory:2: not waited for)"#);
}

#[tokio::test(start_paused = true)]
async fn shut_down() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    fail(&nodes[1..], &Faults::silent());
    drop(guard);
    insta::assert_snapshot!(locks.shutdown().await.unwrap_err(), @"memory:1, memory:2 did not answer: 2 locks may remain there and expire within 32.8 s");
    insta::assert_snapshot!(locks.lock("x").acquire().await.unwrap_err(), @r#"lock "x" was not acquired: its `Locks` was shut down. Create a new one"#);
}
