//! The steps of a test.

use crate::place::Place;
use serde_json::json;

on_each!(every_step_succeeds_and_leaves_nothing);

async fn every_step_succeeds_and_leaves_nothing(place: &dyn Place) {
    for prefix in ["", "a/b", "a/{year}/c"] {
        let destination = place.open(prefix, json!({}));
        let mut seen = 0;
        for step in destination.test_steps() {
            destination
                .test(*step)
                .await
                .unwrap_or_else(|error| panic!("{step:?}: {error}"));
            seen = seen.max(place.files().await.len());
        }
        assert_eq!(seen, 1);
        assert_eq!(place.files().await.len(), 0);
    }
}
