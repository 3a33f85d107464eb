//! Databricks' API: a token from `/oidc/v1/token`, then `POST /api/2.0/sql/statements/`, and `GET`
//! of the statement's id while it runs.

use super::sql::DatabricksSql;
use crate::destination::settings::Settings;
use crate::destination::table::Layout;
use crate::destination::warehouse::api::{Api, ApiResponse};
use crate::destination::warehouse::engine::{Engine, bearer};
use crate::destination::warehouse::statements::Statements;
use crate::destination::warehouse::table_ref::TableRef;
use crate::destination::warehouse::token::{CachedToken, Token};
use crate::error::ExportError;
use async_trait::async_trait;
use millrace_rows::Clock;
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Prefix of `http_path`, before the id of the SQL warehouse.
const WAREHOUSES: &str = "/sql/1.0/warehouses/";
/// Path to which statements are sent; their ids are appended to it.
const STATEMENTS: &str = "/api/2.0/sql/statements/";

/// Databricks as a service that carries out one table's statements.
pub(crate) struct DatabricksEngine {
    table_ref: TableRef,
    sql: DatabricksSql,
    warehouse: String,
    client_id: String,
    client_secret: String,
    api: Api,
    token: CachedToken,
}

impl DatabricksEngine {
    pub(crate) fn new(
        settings: &Settings<'_>,
        layout: &'static Layout,
        api: Api,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ExportError> {
        let path = settings.required("http_path")?;
        let warehouse = path.strip_prefix(WAREHOUSES).ok_or_else(|| {
            let message = format!("The http_path must be that of a SQL warehouse: {WAREHOUSES}….");
            ExportError::permanent(message)
        })?;
        Ok(Self {
            table_ref: TableRef {
                database: settings.required("catalog")?.to_owned(),
                schema: settings.required("schema")?.to_owned(),
                table: settings.required("table_name")?.to_owned(),
                layout,
            },
            sql: DatabricksSql {
                variant_type: settings.flag_or("use_variant_type", true),
            },
            warehouse: warehouse.trim_end_matches('/').to_owned(),
            client_id: settings.required("client_id")?.to_owned(),
            client_secret: settings.required("client_secret")?.to_owned(),
            api,
            token: CachedToken::new(clock),
        })
    }

    async fn log_in(&self) -> Result<Token, ExportError> {
        let url = self.api.url("/oidc/v1/token");
        let body = "grant_type=client_credentials&scope=all-apis";
        let make = |client: &Client| {
            let request = client.post(url.clone());
            let request = request.basic_auth(&self.client_id, Some(&self.client_secret));
            request
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(body)
        };
        let answer = self.api.call(make).await?;
        Token::of(&self.api, &answer)
    }
}

#[async_trait]
impl Engine for DatabricksEngine {
    fn api(&self) -> &Api {
        &self.api
    }

    fn table_ref(&self) -> &TableRef {
        &self.table_ref
    }

    fn statements(&self, stage: &str) -> Statements {
        self.table_ref.statements(&self.sql, stage)
    }

    async fn headers(&self) -> Result<HeaderMap, ExportError> {
        bearer(&self.token.get(|| self.log_in()).await?)
    }

    fn path(&self) -> &'static str {
        STATEMENTS
    }

    /// Databricks has no request ids.
    fn target(&self, _id: Uuid, _is_again: bool) -> Url {
        self.api.url(STATEMENTS)
    }

    fn body(&self, sql: &str, rows: Option<&str>) -> Value {
        let parameter = |rows| json!({"name": "rows", "value": rows, "type": "STRING"});
        let parameters: Vec<_> = rows.into_iter().map(parameter).collect();
        json!({
            "warehouse_id": self.warehouse,
            "statement": sql,
            "wait_timeout": "30s",
            "on_wait_timeout": "CONTINUE",
            "parameters": parameters,
        })
    }

    fn working<'a>(&self, answer: &'a ApiResponse) -> Option<&'a str> {
        let is_working = answer.status == StatusCode::OK
            && matches!(answer.text("/status/state"), Some("PENDING" | "RUNNING"));
        is_working.then(|| answer.text("/statement_id").unwrap_or_default())
    }

    fn result(&self, answer: &ApiResponse) -> Result<Option<String>, ExportError> {
        if answer.status != StatusCode::OK {
            return Err(self.api.refused(answer));
        }
        match answer.text("/status/state") {
            Some("SUCCEEDED") => {
                let first = answer.text("/result/data_array/0/0");
                Ok(first.map(str::to_owned))
            }
            Some("FAILED") => Err(failure(answer)),
            Some("CANCELED" | "CLOSED") => {
                Err(ExportError::retryable("Databricks stopped a statement."))
            }
            _ => Err(self.api.unexpected(answer)),
        }
    }
}

/// Error for a statement that was not carried out. Databricks' message may quote rows; its code
/// does not.
fn failure(answer: &ApiResponse) -> ExportError {
    let code = answer.text("/status/error/error_code").unwrap_or("no code");
    let message = format!("Databricks did not carry out a statement ({code:.40}).");
    if is_conflict(answer) {
        let message =
            "Others changed the table in Databricks at the same time (a conflict in Delta).";
        return ExportError::retryable(message);
    }
    match code {
        "BAD_REQUEST" | "NOT_FOUND" | "UNAUTHENTICATED" | "ALREADY_EXISTS" | "NOT_IMPLEMENTED" => {
            ExportError::permanent(message)
        }
        _ => ExportError::retryable(message),
    }
}

/// Returns true for a conflict with others who changed the table at the same time. Its code is that
/// of a bad request. `sql_state` (`StatementStatus` in the reference of the API) is 2D521 for
/// concurrent appends, deletions and writes and for tables that changed meanwhile
/// (docs.databricks.com/en/error-messages/error-classes, `DELTA_CONCURRENT_APPEND` and similar);
/// older services have only the name of the condition, at the beginning of their message.
fn is_conflict(answer: &ApiResponse) -> bool {
    const CONDITIONS: [&str; 3] = [
        "[DELTA_CONCURRENT_",
        "[DELTA_METADATA_CHANGED",
        "[DELTA_PROTOCOL_CHANGED",
    ];
    let words = answer.text("/status/error/message").unwrap_or_default();
    answer.text("/status/sql_state") == Some("2D521")
        || CONDITIONS.iter().any(|name| words.starts_with(name))
}
