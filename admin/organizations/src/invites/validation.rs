//! Validation of new invites.

use crate::names::checked_text;
use millrace_catalog::email::Email;
use millrace_catalog::entities::organization_invites::{ProjectAccess, ProjectAccesses};
use millrace_catalog::entities::{
    organization_invites as invites, organization_memberships as memberships, projects, users,
};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{ChangeError, Level, Violation};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, JoinType, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use std::collections::BTreeSet;

/// Longest first name, in characters.
const FIRST_NAME_CHARS_MAX: usize = 30;
/// Longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 2000;
/// Most private projects of one invite.
const PROJECTS_MAX: usize = 100;

/// Input for a new invite.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// Address of the invited person.
    pub target_email: String,
    /// First name; at most 30 characters, may be empty.
    pub first_name: String,
    /// Level of the future member; not above the inviter's.
    pub level: Level,
    /// Message of the inviter; at most 2000 characters.
    pub message: Option<String>,
    /// Projects of the organization, with levels not above the inviter's.
    pub private_project_access: Vec<ProjectAccess>,
    /// True if a mail will be sent. If so, nothing but that mail may contain the token: accepting
    /// with it proves the address.
    pub emailing_attempt_made: bool,
}

impl NewInvite {
    /// Invite without a mail and otherwise with the defaults.
    #[must_use]
    pub fn to(target_email: &str) -> Self {
        Self {
            target_email: target_email.to_owned(),
            first_name: String::new(),
            level: Level::Member,
            message: None,
            private_project_access: Vec::new(),
            emailing_attempt_made: false,
        }
    }

    /// Validates the fields that need no look-up.
    pub(super) fn checked(self) -> Result<CheckedInvite, ChangeError> {
        let email = checked_target(&self.target_email)?;
        let message = self.message.as_deref();
        let message = message.map(|text| checked_text("message", text, MESSAGE_CHARS_MAX));
        if self.private_project_access.len() > PROJECTS_MAX {
            let detail = format!("At most {PROJECTS_MAX} projects fit into an invite.");
            return Err(ChangeError::invalid(ACCESS, "max_length", detail));
        }
        Ok(CheckedInvite {
            email_key: email.key,
            target_email: email.mailbox,
            first_name: checked_text("first_name", &self.first_name, FIRST_NAME_CHARS_MAX)?,
            level: self.level,
            message: message.transpose()?,
            access: ProjectAccesses(self.private_project_access),
            emailing_attempt_made: self.emailing_attempt_made,
        })
    }
}

const ACCESS: &str = "private_project_access";

pub(super) struct CheckedInvite {
    pub(super) target_email: String,
    pub(super) email_key: String,
    pub(super) first_name: String,
    pub(super) level: Level,
    pub(super) message: Option<String>,
    pub(super) access: ProjectAccesses,
    pub(super) emailing_attempt_made: bool,
}

fn checked_target(text: &str) -> Result<Email, ChangeError> {
    let text = text.trim();
    let (code, detail) = if text.is_empty() {
        ("blank", "Give an e-mail address.".to_owned())
    } else if let Some(email) = Email::parse(text) {
        return Ok(email);
    } else {
        (
            "invalid_input",
            format!("{text:?} is not an e-mail address."),
        )
    };
    Err(ChangeError::invalid("target_email", code, detail))
}

/// Index of the first invite whose address an earlier one of the list has already.
pub(super) fn find_duplicate(items: &[CheckedInvite]) -> Option<usize> {
    let mut seen = BTreeSet::new();
    items.iter().position(|item| !seen.insert(&*item.email_key))
}

/// Prefixes the field of an error with an item's index; without a field, the address is at fault.
pub(super) fn blame_item(index: usize, error: ChangeError) -> ChangeError {
    let ChangeError::Invalid(violation) = error else {
        return error;
    };
    let field = violation.field.as_deref().unwrap_or("target_email");
    ChangeError::Invalid(Box::new(Violation {
        field: Some(format!("{index}__{field}")),
        ..*violation
    }))
}

/// Validates an invite against its organization, which is locked.
pub(super) async fn must_fit(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    acting: Level,
    item: &CheckedInvite,
) -> Result<(), Abort> {
    if item.level > acting {
        let detail = "Nobody invites to a level above their own.";
        return Err(ChangeError::forbidden(detail).into());
    }
    must_replace_none_above(within, organization_id, acting, &item.email_key).await?;
    must_be_no_member(within, organization_id, &item.email_key).await?;
    let levels = item.access.0.iter().map(|access| access.level.level());
    for level in levels {
        let Some(level) = level else {
            let detail = "The level in a project is 1 (member) or 8 (admin).";
            return Err(ChangeError::invalid(ACCESS, "invalid_input", detail).into());
        };
        if level > acting {
            let detail = "Nobody gives a level in a project above their own.";
            return Err(ChangeError::invalid(ACCESS, "invalid_input", detail).into());
        }
    }
    let wanted: BTreeSet<i64> = item.access.0.iter().map(|access| access.id).collect();
    let found = projects::Entity::find()
        .filter(projects::Column::OrganizationId.eq(organization_id))
        .filter(projects::Column::Id.is_in(wanted.iter().copied()))
        .count(within);
    if !wanted.is_empty() && found.await? < wanted.len() as u64 {
        let detail = "Name projects of this organization.";
        return Err(ChangeError::invalid(ACCESS, "invalid_input", detail).into());
    }
    Ok(())
}

/// Refuses to replace an invite of the address that is above the actor's level.
async fn must_replace_none_above(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    acting: Level,
    email_key: &str,
) -> Result<(), Abort> {
    let above = invites::Entity::find()
        .filter(invites::Column::OrganizationId.eq(organization_id))
        .filter(invites::Column::EmailKey.eq(email_key))
        .filter(invites::Column::Level.gt(acting))
        .count(within)
        .await?;
    if above == 0 {
        return Ok(());
    }
    let detail = "The address has an invite for a level above yours, which yours would replace. \
                  Ask somebody of that level.";
    Err(ChangeError::forbidden(detail).into())
}

pub(super) async fn must_be_no_member(
    within: &DatabaseTransaction,
    organization_id: Uuid,
    email_key: &str,
) -> Result<(), Abort> {
    let user = memberships::Entity::belongs_to(users::Entity)
        .from(memberships::Column::UserId)
        .to(users::Column::Id);
    let members = memberships::Entity::find()
        .join(JoinType::InnerJoin, user.into())
        .filter(memberships::Column::OrganizationId.eq(organization_id))
        .filter(users::Column::Email.eq(email_key))
        .count(within)
        .await?;
    if members == 0 {
        return Ok(());
    }
    let detail = format!("{email_key} is a member already.");
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}
