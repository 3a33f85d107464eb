//! Requests to the health listener, which asks for no password: pages again and again, and
//! connections without an end.

use super::context::AttackContext;
use crate::attack::http::request;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Pages, and the statuses that each may have.
const PAGES: [(&str, &[u16]); 3] = [
    ("/metrics", &[200]),
    ("/_health/live", &[200]),
    ("/_health/ready?verbose", &[200, 503]),
];
/// Unfinished connections: more than the listener keeps, and the time for which they are held.
const UNFINISHED: usize = 80;
const HELD: Duration = Duration::from_secs(10);

/// Asks for the pages in turn.
pub(super) async fn pages(context: Arc<AttackContext>) {
    for (path, statuses) in PAGES.into_iter().cycle() {
        let outcome = context.scraper.send(&request("GET", path, &[], b"")).await;
        let what = format!("health pages: {path}");
        context.findings.note_among(&what, &outcome, statuses);
        let text = outcome.text();
        if text.contains(|c: char| c.is_ascii_control() && !c.is_ascii_whitespace()) {
            let wrong = format!("{path} shows control characters");
            context.findings.wrong(wrong);
        }
        sleep(context.pause).await;
    }
}

/// Opens connections and sends half a head on each.
pub(super) async fn unfinished(context: Arc<AttackContext>) {
    loop {
        let mut held = Vec::new();
        for _ in 0..UNFINISHED {
            if let Ok(mut stream) = context.scraper.connect().await
                && stream
                    .write_all(b"GET /metrics HTTP/1.1\r\nA: ")
                    .await
                    .is_ok()
            {
                held.push(stream);
            }
        }
        let held_now = format!("{} at once", held.len());
        let what = "unfinished heads to the health listener";
        context.findings.count(what, &held_now);
        sleep(HELD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::findings::Outcomes;
    use crate::attack::hostile::unproved;

    #[test]
    fn each_page_has_a_proof_of_its_own() {
        let missing = unproved(&Outcomes::new(), &["health".to_owned()]);
        assert_eq!(missing.len(), PAGES.len());
        for (path, _) in PAGES {
            let attempt = format!(": {path}: ");
            assert!(missing.iter().any(|it| it.contains(&attempt)), "{path}");
        }
    }
}
