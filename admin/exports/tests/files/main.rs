//! Destinations of files, on real servers.
//!
//! Rules: a case runs on every store, through `on_each!`: an S3 server in Rust, another one in
//! Python, Microsoft's own emulator of Azure, a fake of Google's XML API, and a folder. Stored
//! files are read without the destination: from the server's disk or memory, or by plain requests.
//! Secrets are canaries that no message may have.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

/// Runs `async fn name(&dyn TestStore)` on each store.
macro_rules! on_each {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn s3s() {
                super::$name(&crate::servers::s3s::S3s::start().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn moto() {
                super::$name(&crate::servers::moto::Moto::start().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn azure() {
                super::$name(&crate::servers::azurite::Azurite::start().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn gcs() {
                super::$name(&crate::servers::gcs::Gcs::start().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn folder() {
                super::$name(&crate::test_store::LocalFolder::new()).await;
            }
        }
    )+ };
}

mod delivery;
mod destination_test;
mod endless;
mod error_messages;
mod large;
mod links;
mod memory;
mod organizations;
mod retries;
mod s3_settings;
mod servers;
mod support;
mod test_store;
