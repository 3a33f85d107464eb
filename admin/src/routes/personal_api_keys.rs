//! `/api/personal_api_keys/`: the caller's own keys.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::schema::Nothing;
use millrace_catalog::{PersonalKeyRecord, UtcTime};
use millrace_organizations::{CreatedPersonalKey, NewOwnKey, OwnKeyChange};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

const ALL: &str = "/api/personal_api_keys/";
const ONE: &str = "/api/personal_api_keys/{id}/";
const ROLL: &str = "/api/personal_api_keys/{id}/roll/";
/// Alias of the key that the request was made with.
const CURRENT: &str = "@current";
const BEYOND: &str = "The key would allow, or allows, more than the key of the request.";
const BAD_TERMS: &str = "Scopes are missing or unknown, the time has passed, or the organization is \
                         not yours.";

/// Operations of personal keys. None needs a scope: a key creates and changes only keys that
/// allow no more than itself.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list).about("List your keys"),
        Operation::create(ALL, create)
            .about("Create a key")
            .limited_by(&[Limit::PersonalKeys])
            .shown_once(&["value"])
            .fails(400, "invalid_input", BAD_TERMS)
            .fails(403, "permission_denied", BEYOND),
        Operation::get(ONE, retrieve)
            .about("Read a key")
            .note("`@current` is the key of the request. The `ETag` leaves out `last_used_at`.")
            .live_fields(&["last_used_at"]),
        Operation::patch(ONE, &["label", "scopes"], update)
            .about("Change a key")
            .fails(400, "invalid_input", BAD_TERMS)
            .fails(403, "permission_denied", BEYOND),
        Operation::delete(ONE, delete).about("Revoke a key").fails(
            403,
            "permission_denied",
            BEYOND,
        ),
        Operation::action(ROLL, roll)
            .about("Replace the value of a key")
            .note("The old value is refused from the next request on.")
            .shown_once(&["value"])
            .fails(403, "permission_denied", BEYOND),
    ]
}

/// A personal key, without its value.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PersonalAPIKey")]
struct KeyBody {
    /// Id of the key; it is no secret.
    id: Uuid,
    /// Name of the key.
    label: String,
    /// First and last four characters of the value.
    mask_value: String,
    /// Scopes of the key: `*`, or `<resource>:read` and `<resource>:write`.
    scopes: Vec<String>,
    /// Ids of the organizations that the key can access; null: all of its owner.
    scoped_organizations: Option<Vec<Uuid>>,
    /// Always empty: keys are limited by organization.
    scoped_teams: Vec<i64>,
    /// Time after which the key is refused; null: never.
    expires_at: Option<UtcTime>,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last use, updated at most hourly.
    last_used_at: Option<UtcTime>,
    /// Time at which the value was last replaced; null if it was not.
    last_rolled_at: Option<UtcTime>,
    /// Id of the owner.
    user_id: i64,
}

/// A personal key with its new value.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CreatedPersonalAPIKey")]
struct CreatedBody {
    #[serde(flatten)]
    key: KeyBody,
    /// Value of the key. It is not stored, and cannot be read again.
    value: Option<String>,
}

impl From<PersonalKeyRecord> for KeyBody {
    fn from(key: PersonalKeyRecord) -> Self {
        Self {
            id: key.id,
            label: key.label,
            mask_value: key.mask_value,
            scopes: key.scopes.as_slice().to_vec(),
            scoped_organizations: key.scoped_organizations.map(|only| only.0),
            scoped_teams: Vec::new(),
            expires_at: key.expires_at,
            created_at: key.created_at,
            last_used_at: key.last_used_at,
            last_rolled_at: key.last_rolled_at,
            user_id: key.user_id,
        }
    }
}

impl From<CreatedPersonalKey> for CreatedBody {
    fn from(made: CreatedPersonalKey) -> Self {
        Self {
            value: Some(made.value.expose().to_owned()),
            key: made.record.into(),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<KeyBody>, ApiError> {
    let caller = context.caller()?;
    let read = |page| context.personal_keys().list_own(caller, page);
    context.list(context.page(), read).await
}

async fn create(context: Context, new: NewOwnKey) -> Result<CreatedBody, ApiError> {
    let made = context.personal_keys().create_own(context.caller()?, new);
    Ok(made.await?.into())
}

async fn retrieve(context: Context) -> Result<KeyBody, ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    let found = context.personal_keys().get_own(caller, id).await?;
    found.map(KeyBody::from).ok_or_else(ApiError::not_found)
}

async fn update(context: Context, change: OwnKeyChange) -> Result<KeyBody, ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    let changed = context.personal_keys().update_own(caller, id, change);
    Ok(changed.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    Ok(context.personal_keys().delete_own(caller, id).await?)
}

async fn roll(context: Context, _: Nothing) -> Result<CreatedBody, ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    Ok(context.personal_keys().roll_own(caller, id).await?.into())
}

fn id(context: &Context) -> Result<Uuid, ApiError> {
    if context.text("id") == CURRENT {
        let key_id = context.caller()?.credential.key_id();
        return key_id.ok_or_else(ApiError::not_found);
    }
    context.uuid("id")
}
