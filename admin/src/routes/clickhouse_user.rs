//! `/api/projects/:project_id/clickhouse_user/`: the user of a project in ClickHouse.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::schema::Nothing;
use millrace_catalog::{Level, ProjectId, RequiredScope, UtcTime};
use millrace_organizations::NewClickHouseLogin;
use schemars::JsonSchema;
use serde::Serialize;

const ONE: &str = "/api/projects/{project_id}/clickhouse_user/";
/// Scope of whoever may read the rows anyway.
const READ: [RequiredScope; 1] = [RequiredScope::read("query")];

/// Operations of a project's user.
pub(crate) fn operations() -> Vec<Operation> {
    let unsupported = "ClickHouse has no users of single projects, or none with passwords.";
    vec![
        Operation::get(ONE, retrieve)
            .about("Read the user of a project in ClickHouse")
            .note("`rotated_at` is null until the user has a password.")
            .scopes(&READ)
            .level(Level::Administrator)
            .fails(403, "permission_denied", unsupported),
        Operation::action(ONE, rotate)
            .about("Give the user of a project in ClickHouse a new password")
            .note(
                "The user is created if the project has none. It reads the rows of the project and \
                 nothing else. The new password is accepted, and the old one refused, within two \
                 seconds. Log in without a `session_id`.",
            )
            .shown_once(&["password"])
            .scopes(&READ)
            .level(Level::Administrator)
            .fails(403, "permission_denied", unsupported),
    ]
}

/// User of a project in ClickHouse.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClickHouseUser")]
struct UserBody {
    /// Name to log in as.
    user: String,
    /// Database of the tables.
    database: String,
    /// Address of ClickHouse's HTTP interface, as the server reaches it.
    url: String,
    /// Time of the last password; null if there was none.
    rotated_at: Option<UtcTime>,
}

/// User of a project in ClickHouse with a new password.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RotatedClickHouseUser")]
struct RotatedBody {
    #[serde(flatten)]
    user: UserBody,
    /// Password; shown only once.
    password: String,
}

async fn retrieve(context: Context) -> Result<UserBody, ApiError> {
    let project_id = context.project()?.id;
    let user = context
        .clickhouse_users()
        .get(ProjectId(project_id))
        .await?;
    body(&context, project_id, user.map(|user| user.rotated_at)).await
}

async fn rotate(context: Context, _: Nothing) -> Result<RotatedBody, ApiError> {
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let project_id = context.project()?.id;
    // Before anything is changed, as there may be no such users.
    let mut user = body(&context, project_id, None).await?;
    let new = context.project_queries()?.new_password(project_id);
    let login = NewClickHouseLogin {
        password_sha256: new.password_sha256,
        token_sha256: new.token_sha256,
    };
    let users = context.clickhouse_users();
    let rotated = users.rotate(&actor, organization_id, ProjectId(project_id), login);
    user.rotated_at = Some(rotated.await?.rotated_at);
    Ok(RotatedBody {
        user,
        password: new.password,
    })
}

async fn body(
    context: &Context,
    project_id: i64,
    rotated_at: Option<UtcTime>,
) -> Result<UserBody, ApiError> {
    let place = context.project_queries()?.login_place(project_id).await?;
    Ok(UserBody {
        user: place.user,
        database: place.database,
        url: place.url,
        rotated_at,
    })
}
