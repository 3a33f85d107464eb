//! Proxy to ClickHouse that holds counts of some projects' windows until they are released.

use millrace_catalog::ProjectId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

pub struct SlowCounts {
    pub url: String,
    held: watch::Receiver<u32>,
    /// Place of the project in the list, and time, of each count that was held.
    begun: Arc<Mutex<Vec<(usize, Instant)>>>,
    permits: Arc<Semaphore>,
}

impl SlowCounts {
    /// Starts a proxy to a ClickHouse that holds counts of these projects' windows.
    pub async fn start(clickhouse_url: &str, project_ids: &[ProjectId]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = clickhouse_url.strip_prefix("http://").unwrap();
        let address = address.trim_end_matches('/').to_owned();
        let project_ids = project_ids
            .iter()
            .map(|of_project| format!("team_id = {} ", of_project.0));
        let project_ids: Arc<[String]> = project_ids.collect();
        let (sender, held) = watch::channel(0);
        let permits = Arc::new(Semaphore::new(0));
        let (sender, free) = (Arc::new(sender), Arc::clone(&permits));
        let begun = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&begun);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.unwrap();
                let (sender, free) = (Arc::clone(&sender), Arc::clone(&free));
                let (project_ids, noted) = (Arc::clone(&project_ids), Arc::clone(&noted));
                tokio::spawn(async move {
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    let answers = tokio::spawn(async move {
                        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
                    });
                    let mut piece = vec![0; 256 << 10];
                    while let Ok(length @ 1..) = from_client.read(&mut piece).await {
                        let text = String::from_utf8_lossy(&piece[..length]);
                        let slow = project_ids
                            .iter()
                            .position(|of_project| text.contains(of_project));
                        if text.contains("uniqExact(number)")
                            && let Some(project) = slow
                        {
                            noted.lock().unwrap().push((project, Instant::now()));
                            sender.send_modify(|count| *count += 1);
                            free.acquire().await.unwrap().forget();
                        }
                        if to_server.write_all(&piece[..length]).await.is_err() {
                            break;
                        }
                    }
                    answers.abort();
                });
            }
        });
        Self {
            url,
            held,
            begun,
            permits,
        }
    }

    /// Waits until so many counts were held.
    pub async fn until_held(&mut self, count: u32) {
        self.held.wait_for(|held| *held >= count).await.unwrap();
    }

    /// Number of counts held so far.
    pub fn held(&self) -> u32 {
        *self.held.borrow()
    }

    /// Times from each held count to the next one of the same project.
    pub fn intervals(&self) -> Vec<Duration> {
        let mut last = HashMap::new();
        let begun = self.begun.lock().unwrap();
        let interval = |(project, at): &(usize, Instant)| {
            let before = last.insert(*project, *at)?;
            Some(*at - before)
        };
        begun.iter().filter_map(interval).collect()
    }

    /// Releases all counts.
    pub fn go_on(&self) {
        self.permits.add_permits(1_000_000);
    }
}
