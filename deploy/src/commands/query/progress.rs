//! Progress of a query, on a terminal only.

use indicatif::{HumanCount, HumanDuration, ProgressBar};
use millrace_catalog::bounded_json::{VALUES_MAX, parse};
use millrace_clickhouse::ClickHouse;
use serde_json::Value;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Pause between two questions for the progress.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Pause between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// Progress on standard error, which a pager of standard output leaves alone.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    is_shown: bool,
}

impl Progress {
    /// Begins to show the progress, if standard error is a terminal.
    pub fn begin() -> Self {
        let is_shown = std::io::stderr().is_terminal();
        let bar = match is_shown {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        if is_shown {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            begun: Instant::now(),
            is_shown,
        }
    }

    /// Shows the progress of a query beside its future, until that is done.
    pub async fn beside<T>(
        &self,
        clickhouse: &ClickHouse,
        query_id: &str,
        query: impl Future<Output = T>,
    ) -> T {
        let asking = async {
            loop {
                tokio::time::sleep(ASK_EVERY).await;
                // What is shown is no more than a hint.
                if let Ok(Some(progress)) = clickhouse.query_progress(query_id).await {
                    let (read, total) = (progress.read_rows, progress.total_rows.max(1));
                    let percent = (read.saturating_mul(100) / total).min(100);
                    let text = format!("{} of its rows read, {percent} %", HumanCount(read));
                    self.bar.set_message(text);
                }
            }
        };
        let done = tokio::select! {
            done = query => done,
            () = asking => std::future::pending().await,
        };
        self.bar.finish_and_clear();
        done
    }

    /// Tells the figures of the query.
    pub fn end(&self, summary: Option<&str>) {
        let figures = summary.and_then(|text| parse(text.as_bytes(), VALUES_MAX).ok());
        let Some(figures) = figures.filter(|_| self.is_shown) else {
            return;
        };
        let number = |name: &str| {
            let text = figures.get(name).and_then(Value::as_str);
            text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let (rows, bytes) = (number("read_rows"), number("read_bytes"));
        eprintln!(
            "read {} and {} in {}",
            millrace_import::count::counted(rows, "row"),
            indicatif::HumanBytes(bytes),
            HumanDuration(self.begun.elapsed()),
        );
    }
}
