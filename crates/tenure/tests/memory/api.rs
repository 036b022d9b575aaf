//! The shape of the API, and the facade for programs without a runtime.

use tenure::*;

const fn is_send_sync<T: Send + Sync>() {}

fn value_is_send_sync_static<T: Send + Sync + 'static>(_: &T) {}

#[tokio::test]
async fn everything_can_be_moved_and_shared_between_threads() {
    is_send_sync::<Locks>();
    is_send_sync::<Lock>();
    is_send_sync::<Guard>();
    is_send_sync::<MemoryNode>();
    is_send_sync::<AcquireError>();
    is_send_sync::<ExtendError>();
    is_send_sync::<ReleaseError>();
    let locks = Locks::memory();
    let acquire = locks.lock("x").acquire();
    value_is_send_sync_static(&acquire);
    value_is_send_sync_static(&locks.lock("x").try_acquire());
    let shutdown = locks.clone();
    fn send_sync<T: Send + Sync>(value: T) -> T {
        value
    }
    let mut guard = send_sync(acquire).await.unwrap();
    send_sync(guard.extend()).await.unwrap();
    send_sync(guard.release()).await.unwrap();
    send_sync(shutdown.shutdown()).await.unwrap();
}

#[cfg(feature = "blocking")]
mod blocking {
    use super::*;
    use crate::support::*;
    use tenure::blocking;

    #[test]
    fn the_blocking_facade_does_the_same() {
        let nodes = nodes::<5>();
        let locks = blocking::Locks::build(builder(&nodes)).unwrap();
        let mut guard = locks.lock("x").acquire().unwrap();
        assert!(locks.lock("x").try_acquire().unwrap().is_none());
        guard.extend().unwrap();
        guard.extend_for(secs(40)).unwrap();
        assert!(guard.valid_for() > secs(39));
        let error = locks.lock_with("x", |lock| lock.wait(ms(50))).acquire().unwrap_err();
        assert!(matches!(error, blocking::Error::Operation(AcquireError::Contended { .. })), "{error}");
        assert_eq!(guard.release().unwrap().votes.nodes(), 5);
        drop(locks.lock("x").acquire().unwrap());
        locks.shutdown().unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    }

    #[test]
    fn inside_a_runtime_it_is_an_error_and_never_a_panic() {
        let nodes = nodes::<3>();
        let outside = blocking::Locks::build(builder(&nodes)).unwrap();
        let mut guard = outside.lock("held").acquire().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = blocking::Locks::build(builder(&nodes)).unwrap();
            assert!(matches!(locks.lock("x").acquire(), Err(blocking::Error::InsideRuntime)));
            assert!(matches!(locks.lock("x").try_acquire(), Err(blocking::Error::InsideRuntime)));
            assert!(matches!(guard.extend(), Err(blocking::Error::InsideRuntime)));
            assert!(matches!(guard.release(), Err(blocking::Error::InsideRuntime)));
            assert!(matches!(locks.shutdown(), Err(blocking::Error::InsideRuntime)));
            // Dropping the last handle in here must not panic either.
            drop((locks, outside.lock("y")));
        });
        outside.shutdown().unwrap();
        assert_eq!(keys(&nodes), [""; 0], "the release went on in the background");
    }
}

#[tokio::test]
async fn work_is_tried_once_and_not_begun_while_others_have_the_lock() {
    let locks = Locks::memory();
    let lock = locks.lock("x");
    assert_eq!(lock.try_with(async |guard| guard.is_valid()).await.unwrap(), Some(true));
    let held = lock.acquire().await.expect("released after the work");
    let begun = std::time::Instant::now();
    assert_eq!(lock.try_with(async |_| panic!("not begun")).await.unwrap(), None::<()>);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "it does not wait");
    drop(held);
    let error = locks.lock("").try_with(async |_| ()).await.unwrap_err();
    assert!(matches!(error, WithError::Acquire(AcquireError::InvalidName { .. })), "{error}");
}
