//! Wire type of a user, which other resources embed.

use millrace_catalog::User;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// A person with an account.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(crate) struct UserBody {
    /// Id of the user.
    id: i64,
    /// UUID of the user, by which paths name them.
    uuid: Uuid,
    /// Distinct id for events about this person.
    distinct_id: String,
    /// First name; may be empty.
    first_name: String,
    /// Last name; may be empty.
    last_name: String,
    /// Address of the user.
    #[schemars(extend("format" = "email"))]
    email: String,
    /// True once the person accepted an invite that was mailed to this address; false until then.
    is_email_verified: bool,
    /// Avatar for front ends; always null.
    hedgehog_config: Option<Map<String, Value>>,
}

impl From<User> for UserBody {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            uuid: user.uuid,
            distinct_id: user.distinct_id,
            first_name: user.first_name,
            last_name: user.last_name,
            email: user.email,
            is_email_verified: user.is_email_verified.unwrap_or(false),
            hedgehog_config: None,
        }
    }
}
