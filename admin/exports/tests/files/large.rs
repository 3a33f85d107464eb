//! Tests of files larger than a part.

use crate::support::{STEM, deliver, lines, run, written};
use crate::test_store::TestStore;
use bytes::Bytes;
use serde_json::json;

on_each!(
    a_file_of_several_parts_is_complete_and_invisible_until_it_is_published,
    an_aborted_delivery_leaves_nothing,
    a_dropped_delivery_is_overwritten_by_the_next,
);

/// Text of 35 MB: five parts, the last one not full.
fn large() -> String {
    let text = lines("large", 520_000);
    assert!(text.len() > 33 << 20, "{}", text.len());
    text
}

async fn a_file_of_several_parts_is_complete_and_invisible_until_it_is_published(
    store: &dyn TestStore,
) {
    let text = large();
    let destination = store.open("large", json!({}));
    let delivery = written(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    assert_eq!(store.files().await.len(), 0);
    if store.lists_unfinished() {
        assert_eq!(store.unfinished().await, 1);
    }
    delivery.publish().await.unwrap();
    let all = store.files().await;
    assert!(all[&format!("large/{STEM}.jsonl")] == text.as_bytes());
    assert_eq!(all.len(), 2);
    assert_eq!(store.unfinished().await, 0);
}

async fn an_aborted_delivery_leaves_nothing(store: &dyn TestStore) {
    let text = large();
    let destination = store.open("gone", json!({}));
    written(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap()
        .abort()
        .await;
    assert_eq!(
        (store.files().await.len(), store.unfinished().await),
        (0, 0)
    );
    // Aborted in the middle of a file.
    let mut delivery = destination.begin(&run(0), 2).await.unwrap();
    delivery.write(Bytes::from(text.clone())).await.unwrap();
    delivery.end_part(1).await.unwrap();
    delivery.write(Bytes::from(text)).await.unwrap();
    delivery.abort().await;
    assert_eq!(
        (store.files().await.len(), store.unfinished().await),
        (0, 0)
    );
}

async fn a_dropped_delivery_is_overwritten_by_the_next(store: &dyn TestStore) {
    let destination = store.open("dropped", json!({}));
    drop(
        written(destination.as_ref(), &run(0), &[&large()])
            .await
            .unwrap(),
    );
    deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .unwrap();
    let all = store.files().await;
    assert_eq!(all[&format!("dropped/{STEM}.jsonl")], b"row\n");
    assert_eq!(all.len(), 2);
}
