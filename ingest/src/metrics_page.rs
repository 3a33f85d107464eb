//! Page of metrics: rendered at most ten times a second, however often it is asked for.

use bytes::Bytes;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Pause between the end of one rendering and the beginning of the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Page that is rendered once for all who wait for it.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(Mutex<Option<Rendered>>);

#[derive(Debug)]
struct Rendered {
    at: Instant,
    page: Bytes,
}

impl MetricsPage {
    /// Returns a page that was rendered after this call, by `render` or for somebody else who
    /// waited at the same time.
    pub(crate) async fn get(&self, render: impl FnOnce() -> String) -> Bytes {
        let asked_at = Instant::now();
        let mut rendered = self.0.lock().await;
        if let Some(last) = &*rendered {
            if last.at > asked_at {
                return last.page.clone();
            }
            sleep_until(last.at + PAUSE).await;
        }
        let page = Bytes::from(render());
        *rendered = Some(Rendered {
            at: Instant::now(),
            page: page.clone(),
        });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn fifty_clients_have_ten_pages_rendered_in_a_second_and_none_is_old() {
        let (page, renders) = (MetricsPage::default(), Cell::new(0_usize));
        let render = || {
            renders.set(renders.get() + 1);
            "x".repeat(renders.get())
        };
        let end = Instant::now() + Duration::from_secs(1);
        // Asks again as soon as it is answered.
        let client = async || {
            while Instant::now() < end {
                let before = renders.get();
                let number = page.get(render).await.len();
                assert!(number > before, "{number} was rendered before it was asked");
            }
        };
        join_all((0..50).map(|_| client())).await;
        let renders = renders.get();
        assert!((10..=11).contains(&renders), "{renders}");
    }
}
