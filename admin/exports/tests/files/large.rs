//! Files larger than a part.

use crate::place::Place;
use crate::support::{STEM, deliver, lines, run, written};
use bytes::Bytes;
use serde_json::json;

on_each!(
    a_file_of_several_parts_arrives_whole_and_not_before_it_is_published,
    what_is_given_up_leaves_nothing,
    a_delivery_that_was_dropped_is_overwritten_by_the_next,
);

/// 35 MB: five parts, the last one not full.
fn large() -> String {
    let text = lines("large", 520_000);
    assert!(text.len() > 33 << 20, "{}", text.len());
    text
}

async fn a_file_of_several_parts_arrives_whole_and_not_before_it_is_published(place: &dyn Place) {
    let text = large();
    let destination = place.open("large", json!({}));
    let delivery = written(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    assert_eq!(place.files().await.len(), 0);
    if place.tells_unfinished() {
        assert_eq!(place.unfinished().await, 1);
    }
    delivery.publish().await.unwrap();
    let all = place.files().await;
    assert!(all[&format!("large/{STEM}.jsonl")] == text.as_bytes());
    assert_eq!(all.len(), 2);
    assert_eq!(place.unfinished().await, 0);
}

async fn what_is_given_up_leaves_nothing(place: &dyn Place) {
    let text = large();
    let destination = place.open("gone", json!({}));
    written(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap()
        .abort()
        .await;
    assert_eq!(
        (place.files().await.len(), place.unfinished().await),
        (0, 0)
    );
    // In the midst of a file.
    let mut delivery = destination.begin(&run(0), 2).await.unwrap();
    delivery.write(Bytes::from(text.clone())).await.unwrap();
    delivery.end_part(1).await.unwrap();
    delivery.write(Bytes::from(text)).await.unwrap();
    delivery.abort().await;
    assert_eq!(
        (place.files().await.len(), place.unfinished().await),
        (0, 0)
    );
}

async fn a_delivery_that_was_dropped_is_overwritten_by_the_next(place: &dyn Place) {
    let destination = place.open("dropped", json!({}));
    drop(
        written(destination.as_ref(), &run(0), &[&large()])
            .await
            .unwrap(),
    );
    deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .unwrap();
    let all = place.files().await;
    assert_eq!(all[&format!("dropped/{STEM}.jsonl")], b"row\n");
    assert_eq!(all.len(), 2);
}
