//! Services that take SQL statements with a parameter, one a request: a statement from its request
//! to its result.

use super::api::{Answer, Api};
use super::delivery::WarehouseDelivery;
use super::place::Place;
use super::sql::Merge;
use super::{Service, scratch_name, steps};
use crate::destination::{Delivery, TestStep};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// A service that carries out SQL.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// How it is called.
    fn api(&self) -> &Api;

    /// Where the table is that rows go to.
    fn place(&self) -> &Place;

    /// The statements that bring rows by a table of this name beside it.
    fn texts(&self, stage: &str) -> Texts;

    /// What lets a request in.
    async fn headers(&self) -> Result<HeaderMap, ExportError>;

    /// The path below which statements are found by their handles.
    fn path(&self) -> &'static str;

    /// Where a statement is sent to that is known by this id, if the service has such; whether it
    /// is sent again.
    fn target(&self, id: Uuid, is_again: bool) -> Url;

    /// A statement, in which `rows` is the one parameter, as a body.
    fn body(&self, sql: &str, rows: Option<&str>) -> Value;

    /// The handle of a statement that the service is still at work at.
    fn working<'a>(&self, answer: &'a Answer) -> Option<&'a str>;

    /// The first value of a result.
    fn result(&self, answer: &Answer) -> Result<Option<String>, ExportError>;
}

impl dyn Engine + '_ {
    /// Carries out a statement, in which `rows` is the one parameter; answers the first value of
    /// its result. If the outcome of a request is not known, it is sent again.
    pub(super) async fn run(
        &self,
        sql: &str,
        rows: Option<&str>,
    ) -> Result<Option<String>, ExportError> {
        let api = self.api();
        let done = tokio::time::timeout(api.pace.work_max, self.carried_out(sql, rows)).await;
        self.result(&done.map_err(|_| api.late())??)
    }

    /// Sends a statement, and waits while the service is at work.
    async fn carried_out(&self, sql: &str, rows: Option<&str>) -> Result<Answer, ExportError> {
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
            // It becomes a part of a path.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if handle.is_empty() || !handle.bytes().all(plain) {
                return Err(api.odd(&answer));
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
    ) -> Result<Answer, ExportError> {
        let headers = self.headers().await?;
        let call = |client: &Client| make(client).headers(headers.clone());
        self.api().call(call).await
    }
}

#[async_trait]
impl<E: Engine + 'static> Service for E {
    fn api(&self) -> &Api {
        Engine::api(self)
    }

    async fn begin(self: Arc<Self>, run: &RunScope) -> Result<Box<dyn Delivery>, ExportError> {
        Ok(Box::new(WarehouseDelivery::begin(self, run).await?))
    }

    async fn test(self: Arc<Self>, step: TestStep) -> Result<(), ExportError> {
        let scratch = scratch_name(&self.place().table);
        steps::make(&*self, &scratch, step).await
    }
}

/// The header of a token; no log shows it.
pub(crate) fn bearer(token: &str) -> Result<HeaderMap, ExportError> {
    let wrong = |_| ExportError::hopeless("The credentials have characters that none can have.");
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// Statements, in the order of a run.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    /// Makes the table, if it is missing.
    pub(crate) create: String,
    /// Makes the table beside it, empty.
    pub(crate) stage: String,
    /// Puts rows into that: its parameter is a JSON array of them.
    pub(crate) insert: String,
    /// Counts them; those of a request that was sent again may be there twice.
    pub(crate) count: String,
    /// Brings them into the table.
    pub(crate) merge: String,
    /// Drops the table beside.
    pub(crate) drop: String,
    /// Finds the schema.
    pub(crate) find: String,
}

impl Texts {
    /// For tables of such columns. What is alike everywhere is made here; `kind` is that of the
    /// table beside, with a space behind it, if it has one.
    pub(crate) fn of(
        merge: &Merge<'_>,
        columns: &str,
        kind: &str,
        insert: String,
        find: String,
    ) -> Self {
        let Merge { target, stage, .. } = merge;
        Self {
            create: format!("CREATE TABLE IF NOT EXISTS {target} ({columns})"),
            stage: format!("CREATE OR REPLACE {kind}TABLE {stage} ({columns})"),
            insert,
            count: format!("SELECT COUNT(*) FROM {stage}"),
            merge: merge.sql(),
            drop: format!("DROP TABLE IF EXISTS {stage}"),
            find,
        }
    }
}
