//! Wire types of invites.

use crate::error::ApiError;
use crate::level_number::LevelNumber;
use crate::mail::is_address;
use crate::routes::users::UserBody;
use millrace_catalog::{Level, Patch, ProjectAccess, UtcTime};
use millrace_organizations::{Invite, NewInvite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most invites in a request.
const INVITES_MAX: usize = 20;

/// One item, or a list of items; the response has the same form as the request.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "{T}OrList")]
pub(super) enum OneOrMany<T> {
    /// A list.
    Many(#[schemars(length(max = INVITES_MAX))] Vec<T>),
    /// One item.
    One(T),
}

/// Fields of a new invite.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewOrganizationInvite")]
pub(super) struct NewBody {
    /// Address of the recipient.
    #[schemars(email, length(min = 1, max = 254))]
    target_email: String,
    /// Name for the greeting in the mail.
    #[serde(default)]
    #[schemars(length(max = 30))]
    first_name: Patch<String>,
    /// Level of the new member, not above yours; 1 if not given.
    #[serde(default)]
    level: Patch<LevelNumber>,
    /// Message to the recipient.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    message: Patch<Option<String>>,
    /// Private projects that the invite gives access to, with levels not above yours.
    #[serde(default)]
    #[schemars(length(max = 100))]
    private_project_access: Patch<Option<Vec<ProjectAccess>>>,
    /// True to send a mail; true if not given.
    #[serde(default)]
    send_email: Patch<bool>,
}

impl NewBody {
    /// Address of the recipient, if a mail is wanted.
    pub(super) fn recipient(&self) -> Option<&str> {
        (self.send_email != Patch::Value(false)).then_some(&*self.target_email)
    }

    /// Returns true if the invite gives access to private projects.
    pub(super) fn opens_projects(&self) -> bool {
        match &self.private_project_access {
            Patch::Value(Some(access)) => !access.is_empty(),
            _ => false,
        }
    }

    /// Converts the body for the catalog.
    ///
    /// # Errors
    ///
    /// 400 for an invalid address.
    pub(super) fn invite(self, can_mail: bool) -> Result<NewInvite, ApiError> {
        let target_email = self.target_email.trim().to_owned();
        if !target_email.is_empty() && !is_address(&target_email) {
            let detail = "This is not an e-mail address.";
            return Err(ApiError::invalid(
                "invalid_input",
                Some("target_email"),
                detail,
            ));
        }
        let access = self.private_project_access.sent().flatten();
        Ok(NewInvite {
            emailing_attempt_made: can_mail && self.send_email != Patch::Value(false),
            target_email,
            first_name: self.first_name.sent().unwrap_or_default(),
            level: self.level.sent().map_or(Level::Member, |level| level.0),
            message: self.message.sent().flatten(),
            private_project_access: access.unwrap_or_default(),
        })
    }
}

/// An invite to an organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationInvite")]
pub(super) struct InviteBody {
    /// Id of the invite. It is no secret and accepts nothing; only the link does.
    id: Uuid,
    /// Address of the recipient.
    #[schemars(extend("format" = "email"))]
    target_email: String,
    /// Name for the greeting in the mail; may be empty.
    first_name: String,
    /// True if sending a mail was attempted; it may not have arrived.
    emailing_attempt_made: bool,
    level: LevelNumber,
    /// True if the link has expired.
    is_expired: bool,
    /// User who invited; null for the operator.
    created_by: Option<UserBody>,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time at which the link was last replaced.
    updated_at: UtcTime,
    /// Message to the recipient.
    message: Option<String>,
    /// Private projects that the invite gives access to.
    private_project_access: Vec<ProjectAccess>,
}

impl From<Invite> for InviteBody {
    fn from(invite: Invite) -> Self {
        let record = invite.record;
        Self {
            id: record.id,
            target_email: record.target_email,
            first_name: record.first_name,
            emailing_attempt_made: record.emailing_attempt_made,
            level: record.level.into(),
            is_expired: invite.is_expired,
            created_by: invite.created_by.map(UserBody::from),
            created_at: record.created_at,
            updated_at: record.updated_at,
            message: record.message,
            private_project_access: record.private_project_access.0,
        }
    }
}
