//! The shape of the API.

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
