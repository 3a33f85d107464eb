//! Tests of the steps of a destination's test.

use crate::test_store::TestStore;
use serde_json::json;

on_each!(every_step_succeeds_and_leaves_nothing);

async fn every_step_succeeds_and_leaves_nothing(store: &dyn TestStore) {
    for prefix in ["", "a/b", "a/{year}/c"] {
        let destination = store.open(prefix, json!({}));
        let mut seen = 0;
        for step in destination.test_steps() {
            destination
                .test(*step)
                .await
                .unwrap_or_else(|error| panic!("{step:?}: {error}"));
            seen = seen.max(store.files().await.len());
        }
        assert_eq!(seen, 1);
        assert_eq!(store.files().await.len(), 0);
    }
}
