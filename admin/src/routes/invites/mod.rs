//! `/api/organizations/:organization_id/invites/`.
//!
//! Capacity for the mails is reserved before an invite is stored, and the mails are handed over
//! afterwards. So no request waits for a mail server, and a full outbox leaves nothing half done.

mod wire;

use crate::context::Context;
use crate::error::ApiError;
use crate::mail::{Invitation, MailSlots, ReserveError};
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::request::auth::require_feature;
use crate::schema::Nothing;
use millrace_catalog::{RequiredScope, features};
use millrace_organizations::SentInvite;
use wire::{InviteBody, NewBody, OneOrMany};

const ALL: &str = "/api/organizations/{organization_id}/invites/";
const BULK: &str = "/api/organizations/{organization_id}/invites/bulk/";
const ONE: &str = "/api/organizations/{organization_id}/invites/{id}/";
const RESEND: &str = "/api/organizations/{organization_id}/invites/{id}/resend/";
const READ: [RequiredScope; 1] = [RequiredScope::read("organization_member")];
const WRITE: [RequiredScope; 1] = [RequiredScope::write("organization_member")];
const BAD_INVITE: &str = "The address is a member's already, or a project is unknown, or its level is \
                          above yours.";
const ABOVE: &str = "The level is above yours.";
const ABOVE_OR_REPLACED: &str =
    "The level is above yours, or the level of the invite that this one would replace is.";
const MAILED: &str = "The organization or you have sent too many mails, or too many went to the \
                          address; try again later.";
const MAILS: [Limit; 3] = [
    Limit::InviteMails,
    Limit::InviteMailsOfUser,
    Limit::InviteMailsToAddress,
];
const COUNTED: [Limit; 4] = [
    Limit::Invites,
    Limit::InviteMails,
    Limit::InviteMailsOfUser,
    Limit::InviteMailsToAddress,
];
const GATED: &str = "Access to private projects needs the feature `advanced_permissions`.";
const FULL: &str = "Too many mails are waiting to be sent; try again later.";

/// Operations of invites.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the invites of an organization")
            .note("Oldest first, expired ones included.")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Invite somebody")
            .limited_by(&COUNTED)
            .note(
                "A link that works once, for three days, is sent by mail. An older invite for the \
                 address is replaced.",
            )
            .scopes(&WRITE)
            .fails(400, "invalid_input", BAD_INVITE)
            .fails(403, "permission_denied", ABOVE_OR_REPLACED)
            .fails(429, "throttled", MAILED)
            .fails(403, "payment_required", GATED)
            .fails(503, "unavailable", FULL),
        Operation::delete(ONE, delete)
            .about("Withdraw an invite")
            .note("Its link stops working. The caller needs the level that the invite is for.")
            .scopes(&WRITE)
            .fails(403, "permission_denied", ABOVE),
        Operation::action(BULK, bulk)
            .about("Invite several people")
            .large_response()
            .limited_by(&COUNTED)
            .note("A list of at most 20 invites, or one. All of them are created, or none.")
            .scopes(&WRITE)
            .fails(400, "invalid_input", BAD_INVITE)
            .fails(400, "duplicate", "An address is in the list twice.")
            .fails(403, "permission_denied", ABOVE_OR_REPLACED)
            .fails(429, "throttled", MAILED)
            .fails(403, "payment_required", GATED)
            .fails(503, "unavailable", FULL),
        Operation::action(RESEND, resend)
            .about("Send an invite again")
            .limited_by(&MAILS)
            .note("The mail has a new link, which works for three days; the old one stops working.")
            .scopes(&WRITE)
            .fails(400, "invalid_input", "The address has become a member's.")
            .fails(403, "permission_denied", ABOVE)
            .fails(429, "throttled", MAILED)
            .fails(503, "unavailable", FULL),
    ]
}

async fn list(context: Context) -> Result<Envelope<InviteBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.invites().list(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<InviteBody, ApiError> {
    check_features(&context, &new)?;
    let mut slots = reserve_mails(&context, new.recipient().as_slice())?;
    let new = new.invite(slots.is_some())?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let sent = context.invites().create(&actor, id, new).await?;
    send(&context, slots.as_mut(), &sent);
    Ok(sent.invite.into())
}

async fn bulk(
    context: Context,
    new: OneOrMany<NewBody>,
) -> Result<OneOrMany<InviteBody>, ApiError> {
    let new = match new {
        OneOrMany::One(new) => return create(context, new).await.map(OneOrMany::One),
        OneOrMany::Many(new) => new,
    };
    new.iter()
        .try_for_each(|new| check_features(&context, new))?;
    let recipients: Vec<&str> = new.iter().filter_map(NewBody::recipient).collect();
    let mut slots = reserve_mails(&context, &recipients)?;
    let checked = new.into_iter().enumerate().map(|(index, new)| {
        let invite = new.invite(slots.is_some());
        invite.map_err(|error| error.within(&index.to_string()))
    });
    let checked = checked.collect::<Result<Vec<_>, _>>()?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let made = context.invites().create_all(&actor, id, checked).await?;
    for sent in &made {
        send(&context, slots.as_mut(), sent);
    }
    let bodies = made.into_iter().map(|sent| sent.invite.into());
    Ok(OneOrMany::Many(bodies.collect()))
}

async fn resend(context: Context, _: Nothing) -> Result<InviteBody, ApiError> {
    let invite_id = context.uuid("id")?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    // The recipient of an invite never changes, so it can be read before the transaction.
    let recipient = context.invites().address(id, invite_id).await?;
    let recipient = recipient.ok_or_else(ApiError::not_found)?;
    let mut slots = reserve_mails(&context, &[&recipient])?;
    let sent = context
        .invites()
        .resend(&actor, id, invite_id, slots.is_some())
        .await?;
    send(&context, slots.as_mut(), &sent);
    Ok(sent.invite.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let deleted = context.invites().delete(&actor, id, context.uuid("id")?);
    Ok(deleted.await?)
}

/// Checks that the organization has the features that an invite needs.
fn check_features(context: &Context, new: &NewBody) -> Result<(), ApiError> {
    if new.opens_projects() {
        let organization = &context.organization()?.organization;
        require_feature(organization, features::ADVANCED_PERMISSIONS)?;
    }
    Ok(())
}

/// Reserves capacity for mails to these recipients; `None` if no mail is sent. Mails need a
/// configured public URL for their links: a request's `Host` header could name anybody's.
fn reserve_mails(context: &Context, recipients: &[&str]) -> Result<Option<MailSlots>, ApiError> {
    let services = &context.services;
    let is_sent = !recipients.is_empty() && services.config.public_url.is_some();
    let Some(outbox) = services.outbox.as_ref().filter(|_| is_sent) else {
        return Ok(None);
    };
    let mails = u32::try_from(recipients.len()).unwrap_or(u32::MAX);
    let user_id = context.caller()?.user.id;
    let slots = outbox.reserve(context.organization_id()?, mails);
    let slots = slots.and_then(|slots| slots.sent_by(user_id));
    let mut recipients = recipients.iter();
    let slots = slots.and_then(|slots| recipients.try_fold(slots, |slots, to| slots.sent_to(to)));
    let slots = slots.map_err(|error| {
        tracing::warn!(%error, "an invite was refused");
        match error {
            ReserveError::Full => ApiError::unavailable(),
            ReserveError::Quota { owner, wait } => ApiError::too_many_mails(&owner, wait),
        }
    })?;
    Ok(Some(slots))
}

/// Hands the mail of an invite over to the outbox, if the invite is to be mailed.
fn send(context: &Context, slots: Option<&mut MailSlots>, sent: &SentInvite) {
    let invite = &sent.invite.record;
    let Some(slots) = slots.filter(|_| invite.emailing_attempt_made) else {
        return;
    };
    let inviter = sent.invite.created_by.as_ref();
    let email = inviter.map(|user| user.email.clone()).unwrap_or_default();
    let name = inviter.map(|user| format!("{} {}", user.first_name, user.last_name));
    let name = name.map(|name| name.trim().to_owned()).unwrap_or_default();
    let expires_at = invite.expires_at.to_datetime();
    slots.invite(Invitation {
        to: invite.target_email.clone(),
        first_name: invite.first_name.clone(),
        organization: sent.organization.name.clone(),
        inviter: if name.is_empty() { email.clone() } else { name },
        inviter_email: email,
        message: invite.message.clone(),
        link: link(context, sent.token.expose()),
        expires_at: expires_at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    });
}

/// Address of the page that accepts an invite.
fn link(context: &Context, token: &str) -> String {
    let base = context.services.config.public_url.as_deref();
    format!("{}/signup/{token}", base.unwrap_or_default())
}
