//! Proxy to ClickHouse that answers with a page of its own while it is under maintenance.

use super::slow_server::read;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Response of a gateway under maintenance.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Status code and reason.
    pub status: &'static str,
    pub body: &'static str,
}

pub struct Gateway {
    pub url: String,
    /// Answer to all requests; `None`: they are passed on to ClickHouse.
    page: watch::Sender<Option<Page>>,
    /// Number of searches for windows that were answered with a page.
    answered: watch::Receiver<u32>,
}

impl Gateway {
    /// Starts a gateway to a ClickHouse that answers with this page first.
    pub async fn start(clickhouse_url: &str, page: Page) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = clickhouse_url.strip_prefix("http://").unwrap();
        let address = address.trim_end_matches('/').to_owned();
        let (page, pages) = watch::channel(Some(page));
        let (counter, answered) = watch::channel(0);
        let counter = Arc::new(counter);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let page = *pages.borrow();
                match page {
                    Some(page) => tokio::spawn(answer(client, page, Arc::clone(&counter))),
                    None => tokio::spawn(pass_on(client, address.clone())),
                };
            }
        });
        Self {
            url,
            page,
            answered,
        }
    }

    /// Answers all requests from now on with a page; `None`: the maintenance has ended.
    pub fn answer_with(&self, page: Option<Page>) {
        self.page.send_replace(page);
    }

    /// Waits until so many more searches for windows were answered with a page.
    pub async fn until_answered(&mut self, count: u32) {
        let until = *self.answered.borrow() + count;
        let answered = self.answered.wait_for(|answered| *answered >= until);
        answered.await.unwrap();
    }
}

/// Answers one request with a page, and ends the connection.
async fn answer(client: TcpStream, page: Page, counter: Arc<watch::Sender<u32>>) {
    let mut client = BufReader::new(client);
    let Some(statement) = read(&mut client).await else {
        return;
    };
    let Page { status, body } = page;
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let is_sent = client.write_all(response.as_bytes()).await.is_ok();
    if is_sent && String::from_utf8_lossy(&statement).contains("AS number") {
        counter.send_modify(|count| *count += 1);
    }
    // What it sends no more ends the connection, so that no response is lost with it.
    let _ = client.shutdown().await;
    while read(&mut client).await.is_some() {}
}

async fn pass_on(mut client: TcpStream, address: String) {
    let mut server = TcpStream::connect(&address).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}
