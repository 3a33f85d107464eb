//! Invites to organizations.

use crate::{Level, UtcTime};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Invite; an address has at most one in an organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organization_invites")]
pub struct Model {
    /// UUID v7. It gives no access: the token does.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization that the person is invited to.
    pub organization_id: Uuid,
    /// Address of the mail: the part before the `@` as it was written, the rest in lower case.
    pub target_email: String,
    /// Address in lower case, by which people are told apart.
    pub email_key: String,
    /// First name; may be empty.
    pub first_name: String,
    /// Level of the future member.
    pub level: Level,
    /// Message of the inviter.
    pub message: Option<String>,
    /// Levels in private projects, as they were sent.
    pub private_project_access: ProjectAccesses,
    /// True if a mail was to be sent.
    pub emailing_attempt_made: bool,
    /// SHA-256 of the token, in hex.
    #[sea_orm(unique)]
    pub token_hash: String,
    /// Time at which the token stops working; the invite stays listed.
    pub expires_at: UtcTime,
    /// User who invited; null: the operator.
    pub created_by_id: Option<i64>,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which the token was last replaced.
    pub updated_at: UtcTime,
}

/// Levels in private projects, a JSON array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct ProjectAccesses(pub Vec<ProjectAccess>);

/// A level in a private project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PrivateProjectAccess")]
pub struct ProjectAccess {
    /// Id of the project.
    pub id: i64,
    /// Level in the project.
    pub level: ProjectAccessLevel,
}

/// Level as a number or as a word; answered as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProjectAccessLevel {
    /// 1 or 8.
    Number(i64),
    /// `member` or `admin`.
    Word(String),
}

impl JsonSchema for ProjectAccessLevel {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ProjectAccessLevel".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "enum": [1, 8] },
                { "type": "string", "enum": ["member", "admin"] },
            ],
        })
    }
}

impl ProjectAccessLevel {
    /// Level that it means; `None` if it means none.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        match self {
            Self::Number(1) => Some(Level::Member),
            Self::Number(8) => Some(Level::Administrator),
            Self::Word(word) if word == "member" => Some(Level::Member),
            Self::Word(word) if word == "admin" => Some(Level::Administrator),
            Self::Number(_) | Self::Word(_) => None,
        }
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
