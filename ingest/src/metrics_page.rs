//! Page of metrics: rendered some ten times a second at most, however often it is asked for.
//!
//! Nobody waits for a rendering, as a connection that waits may be ended for newer ones: who asks
//! beyond that gets the last page, which is younger than [`PAUSE`].

use bytes::Bytes;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Pause between the end of one rendering and the beginning of the next, in the long run.
const PAUSE: Duration = Duration::from_millis(100);
/// Pauses that renderings may be ahead of: ten pages in a row are rendered at once.
const AHEAD: Duration = Duration::from_millis(900);

/// Page that is rendered for all who ask for it at a time.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(Mutex<Option<Rendered>>);

#[derive(Debug)]
struct Rendered {
    page: Bytes,
    /// Time at which all pauses are over.
    paused_until: Instant,
}

impl MetricsPage {
    /// Returns a page that `render` makes now, or made less than [`PAUSE`] ago.
    pub(crate) fn get(&self, render: impl FnOnce() -> String) -> Bytes {
        let mut rendered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let mut paused_until = began;
        if let Some(last) = &*rendered {
            if last.paused_until > began + AHEAD {
                return last.page.clone();
            }
            paused_until = began.max(last.paused_until);
        }
        let page = Bytes::from(render());
        *rendered = Some(Rendered {
            page: page.clone(),
            paused_until: paused_until + began.elapsed() + PAUSE,
        });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::cell::RefCell;
    use tokio::time::sleep;

    /// Pages whose lengths are their numbers, and the times of their renderings.
    #[derive(Default)]
    struct Pages {
        page: MetricsPage,
        rendered_at: RefCell<Vec<Instant>>,
    }

    impl Pages {
        /// Asks for the page, and returns its age.
        fn age(&self) -> Duration {
            let page = self.page.get(|| {
                let mut rendered_at = self.rendered_at.borrow_mut();
                rendered_at.push(Instant::now());
                "x".repeat(rendered_at.len())
            });
            self.rendered_at.borrow()[page.len() - 1].elapsed()
        }

        fn renders(&self) -> usize {
            self.rendered_at.borrow().len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fifty_clients_share_ten_pages_a_second_and_none_waits_or_is_stale() {
        let pages = Pages::default();
        let end = Instant::now() + Duration::from_secs(10);
        let client = async || {
            while Instant::now() < end {
                let asked_at = Instant::now();
                let age = pages.age();
                assert!(age < PAUSE, "{age:?}");
                assert_eq!(asked_at, Instant::now());
                sleep(Duration::from_millis(1)).await;
            }
        };
        join_all((0..50).map(|_| client())).await;
        let renders = pages.renders();
        assert!((100..=110).contains(&renders), "{renders}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_scraper_gets_a_new_page_each_time() {
        let pages = Pages::default();
        for _ in 0..20 {
            for _ in 0..5 {
                assert_eq!(pages.age(), Duration::ZERO);
            }
            sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(pages.renders(), 100);
    }
}
