//! `/api/signup/:token/`: reading and accepting an invitation by its link.

use super::sign_in::{cookie_of, user_agent};
use super::users::UserBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::level_number::LevelNumber;
use crate::mail::MemberJoined;
use crate::operation::{Limit, Operation};
use crate::response::{WithCookie, WithStatus};
use http::StatusCode;
use millrace_catalog::{Patch, UtcTime};
use millrace_organizations::{Joined, Members, OpenInvite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ONE: &str = "/api/signup/{token}/";
const EXPIRED: &str = "The invite has expired; ask for another one.";

/// Operations of signing up.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(ONE, retrieve)
            .about("Read an invitation")
            .open()
            .fails(400, "expired", EXPIRED),
        Operation::create(ONE, accept)
            .about("Accept an invitation")
            .limited_by(&[Limit::Invites, Limit::Members])
            .note(
                "Without a key a new account is created, with a first personal key that is shown \
                             only here (201), or with `session`, which sets the cookie of a session \
                             instead. An existing account accepts with one of its keys, or its \
                             session (200).",
            )
            .open()
            .also_responds_with(StatusCode::OK)
            .shown_once(&["personal_api_key"])
            .fails(400, "expired", EXPIRED)
            .fails(
                400,
                "insecure_address",
                "`session` was asked for at an address that is neither HTTPS nor of a loopback \
                 interface.",
            )
            .fails(
                400,
                "account_exists",
                "The address has an account: send one of its keys.",
            )
            .fails(
                400,
                "invalid_recipient",
                "The invite is for another address than the key's.",
            )
            .fails(
                400,
                "user_already_member",
                "The key's owner is a member already.",
            ),
    ]
}

/// An invitation, as its link shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Signup")]
struct SignupBody {
    /// Id of the invite.
    id: Uuid,
    /// Address of the recipient, masked.
    target_email: String,
    /// Name for the greeting; may be empty.
    first_name: String,
    /// Name of the organization.
    organization_name: String,
    level: LevelNumber,
    /// Time at which the link expires.
    expires_at: UtcTime,
}

impl From<OpenInvite> for SignupBody {
    fn from(open: OpenInvite) -> Self {
        let record = open.record;
        Self {
            id: record.id,
            target_email: masked(&record.target_email),
            first_name: record.first_name,
            organization_name: open.organization_name,
            level: record.level.into(),
            expires_at: record.expires_at,
        }
    }
}

/// Name of the person who signs up.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewSignup")]
#[serde(default)]
struct AcceptBody {
    /// First name of a new account.
    #[schemars(length(max = 150))]
    first_name: Patch<String>,
    /// Last name of a new account.
    #[schemars(length(max = 150))]
    last_name: Patch<String>,
    /// True to sign a new account in on this browser, in the place of creating a key for it.
    session: Patch<bool>,
}

/// Result of accepting an invitation.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedUp")]
struct SignedUpBody {
    /// Person who joined.
    user: UserBody,
    /// Id of the organization.
    organization_id: Uuid,
    level: LevelNumber,
    /// First personal key of a new account, with the scope `*`; null for an existing account, and
    /// with `session`.
    personal_api_key: Option<String>,
}

impl From<Joined> for SignedUpBody {
    fn from(joined: Joined) -> Self {
        let key = joined.key.as_ref().map(|key| key.value.expose());
        Self {
            organization_id: joined.organization.id,
            level: joined.member.membership.level.into(),
            personal_api_key: key.map(str::to_owned),
            user: joined.member.user.into(),
        }
    }
}

async fn retrieve(context: Context) -> Result<SignupBody, ApiError> {
    let open = context.invites().open(context.text("token")).await?;
    let open = open.ok_or_else(ApiError::not_found)?;
    if open.is_expired {
        return Err(ApiError::invalid("expired", None, EXPIRED));
    }
    Ok(open.into())
}

async fn accept(
    context: Context,
    body: AcceptBody,
) -> Result<WithCookie<WithStatus<SignedUpBody>>, ApiError> {
    let (invites, token) = (context.invites(), context.text("token"));
    let wants_session = body.session.sent().unwrap_or_default();
    let mut cookie = None;
    let (status, joined) = match &context.caller {
        Some(caller) => (StatusCode::OK, invites.accept_as(token, caller).await?),
        None => {
            let first_name = body.first_name.sent().unwrap_or_default();
            let last_name = body.last_name.sent().unwrap_or_default();
            let joined = if wants_session {
                // Before the token is used up.
                cookie = Some(cookie_of(&context)?);
                let user_agent = user_agent(&context.request.headers);
                let made = invites.accept_in_browser(token, &first_name, &last_name, user_agent);
                made.await?
            } else {
                let made = invites.accept_as_new(token, &first_name, &last_name);
                made.await?
            };
            (StatusCode::CREATED, joined)
        }
    };
    announce(&context, &joined);
    let opened = cookie.zip(joined.session.as_ref());
    let cookie = opened.map(|(cookie, session)| cookie.set(session.token.expose()));
    Ok(WithCookie {
        cookie: cookie.transpose()?,
        body: WithStatus {
            status,
            body: joined.into(),
        },
    })
}

/// Sends a notice to the other members, if the organization wants that. The request neither fails
/// nor waits if there is no capacity for the mails.
fn announce(context: &Context, joined: &Joined) {
    let organization = &joined.organization;
    let Some(outbox) = context.services.outbox.as_ref() else {
        return;
    };
    if !organization.is_member_join_email_enabled {
        return;
    }
    let slot = match outbox.reserve_notice(organization.id) {
        Ok(slot) => slot,
        Err(full) => {
            tracing::warn!(%full, "members are not notified of a new member");
            return;
        }
    };
    let user = &joined.member.user;
    let name = format!("{} {}", user.first_name, user.last_name);
    let named = !name.trim().is_empty();
    let notice = MemberJoined {
        member: if named { name.trim() } else { &user.email }.to_owned(),
        email: user.email.clone(),
        organization: organization.name.clone(),
    };
    let (catalog, id, new) = (context.catalog().clone(), organization.id, user.id);
    slot.announce(notice, move |after| {
        let catalog = catalog.clone();
        async move {
            Members::new(&catalog)
                .addresses_beside(id, new, after)
                .await
        }
    });
}

/// Masks an address but for its first character and its domain: enough to recognize one's own,
/// too little to learn the rest.
fn masked(email: &str) -> String {
    let (local, domain) = email.rsplit_once('@').unwrap_or((email, ""));
    let first: String = local.chars().take(1).collect();
    format!("{first}***@{domain}")
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn addresses_are_masked_but_for_the_first_character_and_the_domain() {
        let table = [
            ("bob@example.org", "b***@example.org"),
            ("b@example.org", "b***@example.org"),
            ("äöü@example.org", "ä***@example.org"),
            ("\"a@b\"@example.org", "\"***@example.org"),
        ];
        for (email, shown) in table {
            assert_eq!(masked(email), shown);
        }
    }
}
