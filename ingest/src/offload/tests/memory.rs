//! Memory that decoders and parsers wait for.

use super::*;

#[tokio::test(start_paused = true)]
async fn bodies_of_unknown_sizes_wait_for_memory_and_none_for_more_than_there_is() {
    let limits = HttpLimits {
        in_flight_bytes_max: 8 << 20,
        ..HttpLimits::default()
    };
    let pool = Arc::new(OffloadPool::new(4, &limits));
    let slot = || OffloadSlot::acquire(Arc::clone(&pool), of_project(true));
    let (first, second) = (slot().await.unwrap(), slot().await.unwrap());
    let all = first.reserve_memory_at_most(100 << 20).await.unwrap();
    assert_eq!(pool.memory.available_permits(), 0);
    let waits = tokio::spawn(async move { second.reserve_memory_at_most(3 << 20).await });
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(!waits.is_finished());
    drop(all);
    let some = waits.await.unwrap().unwrap();
    assert_eq!(pool.memory.available_permits(), 1);
    drop(some);
    assert_eq!(pool.memory.available_permits(), 4);
}

#[tokio::test(start_paused = true)]
async fn parsers_wait_for_memory_for_eight_seconds_and_none_for_more_than_there_is() {
    let pool = |in_flight_bytes_max| {
        let limits = HttpLimits {
            in_flight_bytes_max,
            ..HttpLimits::default()
        };
        Arc::new(OffloadPool::new(4, &limits))
    };
    let slot = |pool: &Arc<OffloadPool>| OffloadSlot::acquire(Arc::clone(pool), of_project(true));
    // Of 1.5 MiB only the first whole one is given out.
    for (in_flight, bytes) in [(8 << 20, (4 << 20) + 1), (3 << 20, (1 << 20) + 1)] {
        let first = slot(&pool(in_flight)).await.unwrap();
        let began = Instant::now();
        assert!(first.reserve_memory(bytes).await.unwrap().is_none());
        assert_eq!(began.elapsed(), Duration::ZERO, "{bytes}");
    }
    let pool = pool(8 << 20);
    let (first, second) = (slot(&pool).await.unwrap(), slot(&pool).await.unwrap());
    let some = first.reserve_memory((2 << 20) + 1).await.unwrap();
    assert_eq!(pool.memory.available_permits(), 1);
    let began = Instant::now();
    assert!(second.reserve_memory(2 << 20).await.is_err());
    assert_eq!(began.elapsed(), Duration::from_secs(8));
    let third = slot(&pool).await.unwrap();
    let waits = tokio::spawn(async move { third.reserve_memory(4 << 20).await });
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(!waits.is_finished());
    drop(some);
    let all = waits.await.unwrap().unwrap();
    assert!(all.is_some());
    assert_eq!(pool.memory.available_permits(), 0);
    drop(all);
    assert_eq!(pool.memory.available_permits(), 4);
}
