//! `/api/projects/:project_id/query/`: SQL over the rows of one project.
//!
//! The text of a query is not looked at here: ClickHouse runs it as the project's user. An answer
//! is streamed, so its status is that of its beginning; one that fails later breaks off.

mod accept;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::project_queries::{ANSWER_BYTES_MAX, ProjectQuery, QUERY_BYTES_MAX};
use crate::response::stream::{BodyStream, Pieces};
use crate::response::{ApiResponse, HandlerResult};
use accept::{MEDIA_TYPES, accepted_format};
use http::{HeaderName, HeaderValue};
use millrace_catalog::text::ANY;
use millrace_catalog::{Patch, RequiredScope};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

const ALL: &str = "/api/projects/{project_id}/query/";
const ONE: &str = "/api/projects/{project_id}/query/{query_id}/";
/// Scope of queries. Stopping one changes nothing.
const READ: [RequiredScope; 1] = [RequiredScope::read("query")];
const QUERY_ID: HeaderName = HeaderName::from_static("x-clickhouse-query-id");
const SUMMARY: HeaderName = HeaderName::from_static("x-clickhouse-summary");

/// Operations of queries.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::stream(ALL, &MEDIA_TYPES, run)
            .about("Run a query in ClickHouse over the rows of a project")
            .note(
                "The tables are `events`, `persons`, `person_distinct_ids`, `groups`, \
                 `rejected_events`, and the views `persons_current` and `events_with_persons`. \
                 `Accept` names the format: JSON, NDJSON, CSV, Parquet or Arrow. \
                 `X-ClickHouse-Query-Id` has the id of the query, `X-ClickHouse-Summary` the \
                 figures of ClickHouse: of the whole query if its answer has less than 1 MiB, \
                 otherwise of its beginning. An answer that fails behind its beginning breaks off. \
                 `Idempotency-Key` is ignored, as a query changes nothing.",
            )
            .scopes(&READ)
            .limited_by(&[
                Limit::Queries,
                Limit::AllQueries,
                Limit::QueryRows,
                Limit::QueryBytes,
            ])
            .fails(
                400,
                "query_failed",
                "ClickHouse refuses the query; `clickhouse` has the code and the position.",
            )
            .fails(
                400,
                "query_limit_exceeded",
                "The query takes more time, memory, rows or bytes than it may.",
            )
            .fails(400, "query_stopped", "The query was stopped.")
            .fails(
                406,
                "not_acceptable",
                "`Accept` names no format that there is.",
            ),
        Operation::delete(ONE, stop)
            .about("Stop a query")
            .note("404 if no query with this id runs.")
            .waits_outside()
            .scopes(&READ),
    ]
}

/// Query to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ProjectQuery")]
struct QueryBody {
    /// One SELECT in ClickHouse's SQL, without FORMAT.
    #[schemars(
        length(min = 1, max = QUERY_BYTES_MAX),
        regex(pattern = r"\S"),
        extend("x-text" = ANY)
    )]
    query: String,
    /// Id of the query, by which it can be stopped before its answer begins; a new one if not
    /// given.
    #[serde(default)]
    query_id: Patch<Uuid>,
}

async fn run(context: Context, body: QueryBody) -> HandlerResult {
    let format = accepted_format(&context.request.headers)?;
    let queries = context.project_queries()?;
    let permit = context.query_permit().await?;
    let project_id = context.project()?.id;
    let query = ProjectQuery {
        project_id,
        query_id: body.query_id.sent().unwrap_or_else(Uuid::new_v4),
        sql: body.query,
        format,
    };
    let shared = context.services.project_queries.clone();
    let shared = shared.ok_or_else(ApiError::unavailable)?;
    let permit = permit.until_ended(shared, project_id, query.query_id);
    let query_id = query.query_id.to_string();
    let answer = queries.run(query).await?;
    let headers = [(QUERY_ID, Some(query_id)), (SUMMARY, answer.summary)];
    let headers = headers.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_str(&value?).ok()?;
        Some((name, value))
    });
    let pieces = Pieces::new(answer.pieces, ANSWER_BYTES_MAX, permit);
    let stream = BodyStream::new(pieces, headers.collect());
    Ok(ApiResponse::streamed(format.content_type(), stream))
}

async fn stop(context: Context) -> Result<(), ApiError> {
    let (project_id, query_id) = (context.project()?.id, context.uuid("query_id")?);
    match context
        .project_queries()?
        .stop(project_id, query_id)
        .await?
    {
        true => Ok(()),
        false => Err(ApiError::not_found()),
    }
}
