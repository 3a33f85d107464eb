//! `/api/organizations/:organization_id/invites/`.
//!
//! Room for the mails is taken before an invite is kept, and the mails are handed over after: so
//! no request waits for a mail server, and a full outbox keeps nothing half done.

mod wire;

use crate::context::Context;
use crate::error::ApiError;
use crate::mail::{Invitation, NoRoom, Room};
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::request::auth::must_have;
use crate::schema::Nothing;
use millrace_catalog::{Need, SentInvite, features};
use time::macros::format_description;
use wire::{InviteBody, NewBody, OneOrMany};

const ALL: &str = "/api/organizations/{organization_id}/invites/";
const BULK: &str = "/api/organizations/{organization_id}/invites/bulk/";
const ONE: &str = "/api/organizations/{organization_id}/invites/{id}/";
const RESEND: &str = "/api/organizations/{organization_id}/invites/{id}/resend/";
const READ: [Need; 1] = [Need::read("organization_member")];
const WRITE: [Need; 1] = [Need::write("organization_member")];
const BAD_INVITE: &str = "The address is a member's already, or a project is unknown or its level \
                          above yours.";
const ABOVE: &str = "The level is above yours.";
const ABOVE_OR_REPLACED: &str =
    "The level is above yours, or that of the invite which this one would replace.";
const MAILED: &str = "The organization or you have sent too many mails, or too many went to the address; try again later.";
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
const GATED: &str = "Access to private projects takes the feature `advanced_permissions`.";
const FULL: &str = "Too many mails are on their way; try again later.";

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the invites of an organization")
            .note("Oldest first; expired ones as well.")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Invite somebody")
            .counted(&COUNTED)
            .note("A link that works once, for three days, is sent by mail. An older invite for the address is replaced.")
            .scopes(&WRITE)
            .fails(400, "invalid_input", BAD_INVITE)
            .fails(403, "permission_denied", ABOVE_OR_REPLACED)
            .fails(429, "throttled", MAILED)
            .fails(403, "payment_required", GATED)
            .fails(503, "unavailable", FULL),
        Operation::delete(ONE, delete)
            .about("Withdraw an invite")
            .note("Its link stops working. It takes the level that the invite is for, as to make it does.")
            .scopes(&WRITE)
            .fails(403, "permission_denied", ABOVE),
        Operation::action(BULK, bulk)
            .about("Invite several people")
            .answers_much()
            .counted(&COUNTED)
            .note("A list of at most 20, or one invite. All of them are made, or none.")
            .scopes(&WRITE)
            .fails(400, "invalid_input", BAD_INVITE)
            .fails(400, "duplicate", "An address is in the list twice.")
            .fails(403, "permission_denied", ABOVE_OR_REPLACED)
            .fails(429, "throttled", MAILED)
            .fails(403, "payment_required", GATED)
            .fails(503, "unavailable", FULL),
        Operation::action(RESEND, resend)
            .about("Send an invite again")
            .counted(&MAILS)
            .note("With a new link, which works for three days; the old one stops working.")
            .scopes(&WRITE)
            .fails(400, "invalid_input", "The address is a member's by now.")
            .fails(403, "permission_denied", ABOVE)
            .fails(429, "throttled", MAILED)
            .fails(503, "unavailable", FULL),
    ]
}

async fn list(context: Context) -> Result<Envelope<InviteBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.catalog().invites_of(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<InviteBody, ApiError> {
    may_give(&context, &new)?;
    let mut room = room_for(&context, new.recipient().as_slice())?;
    let new = new.invite(room.is_some())?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let sent = context.catalog().create_invite(&actor, id, new).await?;
    send(&context, room.as_mut(), &sent);
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
    new.iter().try_for_each(|new| may_give(&context, new))?;
    let recipients: Vec<&str> = new.iter().filter_map(NewBody::recipient).collect();
    let mut room = room_for(&context, &recipients)?;
    let checked = new.into_iter().enumerate().map(|(index, new)| {
        let invite = new.invite(room.is_some());
        invite.map_err(|error| error.within(&index.to_string()))
    });
    let checked = checked.collect::<Result<Vec<_>, _>>()?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let made = context
        .catalog()
        .create_invites(&actor, id, checked)
        .await?;
    for sent in &made {
        send(&context, room.as_mut(), sent);
    }
    let bodies = made.into_iter().map(|sent| sent.invite.into());
    Ok(OneOrMany::Many(bodies.collect()))
}

async fn resend(context: Context, _: Nothing) -> Result<InviteBody, ApiError> {
    let invite_id = context.uuid("id")?;
    let (actor, id) = (context.actor()?, context.organization_id()?);
    // Whom an invite is for never changes.
    let recipient = context.catalog().invite_address(id, invite_id).await?;
    let recipient = recipient.ok_or_else(ApiError::not_found)?;
    let mut room = room_for(&context, &[&recipient])?;
    let sent = context
        .catalog()
        .resend_invite(&actor, id, invite_id, room.is_some())
        .await?;
    send(&context, room.as_mut(), &sent);
    Ok(sent.invite.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let deleted = context
        .catalog()
        .delete_invite(&actor, id, context.uuid("id")?);
    Ok(deleted.await?)
}

/// Lets invites pass that the organization has the features for.
fn may_give(context: &Context, new: &NewBody) -> Result<(), ApiError> {
    if new.opens_projects() {
        let organization = &context.organization()?.organization;
        must_have(organization, features::ADVANCED_PERMISSIONS)?;
    }
    Ok(())
}

/// Room for mails to these, if mail is sent at all and any is wanted. None is sent without an
/// address of our own for its link: what a request says of it may be anybody's.
fn room_for(context: &Context, recipients: &[&str]) -> Result<Option<Room>, ApiError> {
    let services = &context.services;
    let is_sent = !recipients.is_empty() && services.config.public_url.is_some();
    let Some(outbox) = services.outbox.as_ref().filter(|_| is_sent) else {
        return Ok(None);
    };
    let mails = u32::try_from(recipients.len()).unwrap_or(u32::MAX);
    let user_id = context.caller()?.user.id;
    let room = outbox.reserve(context.organization_id()?, mails);
    let room = room.and_then(|room| room.sent_by(user_id));
    let mut recipients = recipients.iter();
    let room = room.and_then(|room| recipients.try_fold(room, |room, to| room.sent_to(to)));
    let room = room.map_err(|no_room| {
        tracing::warn!(%no_room, "an invite was refused");
        match no_room {
            NoRoom::Full => ApiError::unavailable(),
            NoRoom::Quota { of, wait } => ApiError::too_many_mails(&of, wait),
        }
    })?;
    Ok(Some(room))
}

/// Hands the mail over, if one was promised.
fn send(context: &Context, room: Option<&mut Room>, sent: &SentInvite) {
    let invite = &sent.invite.record;
    let Some(room) = room.filter(|_| invite.emailing_attempt_made) else {
        return;
    };
    let inviter = sent.invite.created_by.as_ref();
    let email = inviter.map(|user| user.email.clone()).unwrap_or_default();
    let name = inviter.map(|user| format!("{} {}", user.first_name, user.last_name));
    let name = name.map(|name| name.trim().to_owned()).unwrap_or_default();
    let expires_at = invite.expires_at.to_datetime();
    let minutes = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    room.invite(Invitation {
        to: invite.target_email.clone(),
        first_name: invite.first_name.clone(),
        organization: sent.organization.name.clone(),
        inviter: if name.is_empty() { email.clone() } else { name },
        inviter_email: email,
        message: invite.message.clone(),
        link: link(context, sent.token.expose()),
        expires_at: expires_at.format(minutes).unwrap_or_default(),
    });
}

/// The address of the page that accepts.
fn link(context: &Context, token: &str) -> String {
    let base = context.services.config.public_url.as_deref();
    format!("{}/signup/{token}", base.unwrap_or_default())
}
