//! Runs SQL statements with a parameter, one per request, from the request to the result.

use super::api::{Api, ApiResponse};
use super::statements::Statements;
use super::table_ref::TableRef;
use crate::error::ExportError;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// Service that carries out SQL statements.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// HTTP client of the service.
    fn api(&self) -> &Api;

    /// Table that rows go to.
    fn table_ref(&self) -> &TableRef;

    /// Statements that bring rows into the table by way of a staging table of this name.
    fn statements(&self, stage: &str) -> Statements;

    /// Authentication headers of a request.
    async fn headers(&self) -> Result<HeaderMap, ExportError>;

    /// Path below which statements are found by their handles.
    fn path(&self) -> &'static str;

    /// URL to which a statement is sent. It has the request's id and whether this is a retry, if
    /// the service knows such.
    fn target(&self, id: Uuid, is_again: bool) -> Url;

    /// Request body of a statement whose only parameter is `rows`.
    fn body(&self, sql: &str, rows: Option<&str>) -> Value;

    /// Handle of a statement that is still running.
    fn working<'a>(&self, answer: &'a ApiResponse) -> Option<&'a str>;

    /// First value of a result.
    fn result(&self, answer: &ApiResponse) -> Result<Option<String>, ExportError>;
}

impl dyn Engine + '_ {
    /// Runs a statement whose only parameter is `rows`; returns the first value of its result. A
    /// request whose outcome is not known is sent again.
    pub(super) async fn run(
        &self,
        sql: &str,
        rows: Option<&str>,
    ) -> Result<Option<String>, ExportError> {
        let api = self.api();
        let done =
            tokio::time::timeout(api.retry_policy.work_max, self.carried_out(sql, rows)).await;
        self.result(&done.map_err(|_| api.timed_out())??)
    }

    /// Sends a statement, and polls until it has ended.
    async fn carried_out(&self, sql: &str, rows: Option<&str>) -> Result<ApiResponse, ExportError> {
        let (api, id) = (self.api(), Uuid::new_v4());
        let body = self.body(sql, rows).to_string();
        let is_again = AtomicBool::new(false);
        let send = |client: &Client| {
            let url = self.target(id, is_again.swap(true, Ordering::Relaxed));
            let request = client.post(url).header(CONTENT_TYPE, "application/json");
            request.body(body.clone())
        };
        let mut answer = self.call(send).await?;
        let mut asked = 0;
        while let Some(handle) = self.working(&answer) {
            // The handle becomes a part of a path.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if handle.is_empty() || !handle.bytes().all(plain) {
                return Err(api.unexpected(&answer));
            }
            let url = api.url(&format!("{}{handle}", self.path()));
            asked += 1;
            api.pause(asked).await;
            answer = self.call(|client| client.get(url.clone())).await?;
        }
        Ok(answer)
    }

    async fn call(
        &self,
        make: impl Fn(&Client) -> RequestBuilder + Send + Sync,
    ) -> Result<ApiResponse, ExportError> {
        let headers = self.headers().await?;
        let call = |client: &Client| make(client).headers(headers.clone());
        self.api().call(call).await
    }
}

/// Authorization header of a token, which no log shows.
pub(crate) fn bearer(token: &str) -> Result<HeaderMap, ExportError> {
    let wrong =
        |_| ExportError::permanent("The credentials contain invalid characters. Give them again.");
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}
