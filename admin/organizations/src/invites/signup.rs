//! Acceptance of an invite, with a new account or with an existing one.

use super::Invites;
use crate::caller::Caller;
use crate::members::{Member, joined, member_audit};
use crate::names::checked_text;
use crate::organizations::insert_membership;
use crate::personal_keys::{CreatedPersonalKey, KeyConstraints, PersonalKeys};
use crate::secret_token::SecretToken;
use crate::sessions::{OpenedSession, Sessions};
use crate::users::{NewUser, insert_user, prove_address};
use millrace_catalog::cleanup::mark_used;
use millrace_catalog::entities::{organization_invites as invites, organizations, users};
use millrace_catalog::limits::{MEMBERS_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization};
use millrace_catalog::{Activity, Actor, CatalogError, ChangeError, SignInMethod, is_duplicate};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter};

/// Longest first or last name, in characters.
const NAME_CHARS_MAX: usize = 150;
const KEY_LABEL: &str = "First key";

/// Invite as the holder of its token sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInvite {
    /// Row of the invite.
    pub record: invites::Model,
    /// Name of the organization.
    pub organization_name: String,
    /// True if the invite has expired.
    pub is_expired: bool,
}

/// Membership that an accepted invite created.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Organization of the member.
    pub organization: organizations::Model,
    /// New member.
    pub member: Member,
    /// First key, with scope `*`, of a new account.
    pub key: Option<CreatedPersonalKey>,
    /// First session of a new account, in the place of a key.
    pub session: Option<OpenedSession>,
}

/// First credential of a new account.
enum FirstCredential<'a> {
    /// Personal key, for programs.
    Key,
    /// Session of a browser, by the name that it gives itself.
    Session(&'a str),
}

impl Invites<'_> {
    /// Finds the invite of a token; `None` if there is none, or it was used.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn open(self, token: &str) -> Result<Option<OpenInvite>, CatalogError> {
        let read = async {
            let Some(record) = find_by_token(self.0.reader(), token).await? else {
                return Ok(None);
            };
            let id = record.organization_id;
            let organization = organizations::Entity::find_by_id(id)
                .one(self.0.reader())
                .await?;
            Ok(organization.map(|organization| OpenInvite {
                is_expired: record.expires_at <= self.0.now(),
                record,
                organization_name: organization.name,
            }))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Accepts an invite with a new account for its address.
    ///
    /// # Errors
    ///
    /// No such invite; `expired`; `account_exists`, as its owner must accept with a key; a name is
    /// too long.
    pub async fn accept_as_new(
        self,
        token: &str,
        first_name: &str,
        last_name: &str,
    ) -> Result<Joined, ChangeError> {
        self.accept_with(token, (first_name, last_name), FirstCredential::Key)
            .await
    }

    /// Accepts an invite like [`Invites::accept_as_new`], and signs the new account in, in place of
    /// creating a key for it.
    ///
    /// # Errors
    ///
    /// As [`Invites::accept_as_new`].
    pub async fn accept_in_browser(
        self,
        token: &str,
        first_name: &str,
        last_name: &str,
        user_agent: &str,
    ) -> Result<Joined, ChangeError> {
        let credential = FirstCredential::Session(user_agent);
        self.accept_with(token, (first_name, last_name), credential)
            .await
    }

    async fn accept_with(
        self,
        token: &str,
        (first_name, last_name): (&str, &str),
        credential: FirstCredential<'_>,
    ) -> Result<Joined, ChangeError> {
        let first_name = checked_text("first_name", first_name, NAME_CHARS_MAX)?;
        let last_name = checked_text("last_name", last_name, NAME_CHARS_MAX)?;
        let transaction = self.0.begin().await?;
        let joined = async {
            let accepted = self.acceptable_invite(&transaction, token).await?;
            let new = NewUser {
                email: accepted.invite.email_key.clone(),
                first_name,
                last_name,
            };
            let proved = proves_address(&accepted.invite);
            let user = self.add_account(&transaction, new, proved).await?;
            let actor = Actor::user(&user, None);
            let mut joined = self.join(&transaction, &actor, accepted, user).await?;
            match credential {
                FirstCredential::Key => {
                    let constraints = KeyConstraints {
                        label: KEY_LABEL.to_owned(),
                        ..KeyConstraints::none()
                    };
                    let user_id = joined.member.user.id;
                    let key = PersonalKeys::new(self.0)
                        .add(&transaction, &actor, user_id, constraints)
                        .await?;
                    joined.key = Some(key);
                }
                FirstCredential::Session(user_agent) => {
                    let user = joined.member.user.clone();
                    let session = Sessions::new(self.0)
                        .open(&transaction, user, SignInMethod::Invite, user_agent)
                        .await?;
                    joined.session = Some(session);
                }
            }
            Ok(joined)
        };
        let joined = joined.await;
        self.0.finish(transaction, joined).await
    }

    /// Accepts an invite for the caller's address.
    ///
    /// # Errors
    ///
    /// The key is limited to some organizations; no such invite; `expired`; `invalid_recipient`, as
    /// it is for another address; `user_already_member`.
    pub async fn accept_as(self, token: &str, caller: &Caller) -> Result<Joined, ChangeError> {
        if caller.scoped_organizations.is_some() {
            let detail = "This key is limited to some organizations and cannot join another.";
            return Err(ChangeError::forbidden(detail));
        }
        let transaction = self.0.begin().await?;
        let joined = async {
            let accepted = self.acceptable_invite(&transaction, token).await?;
            let user = caller.user.clone();
            if accepted.invite.email_key != user.email {
                let detail = "This invite is for another address.";
                return Err(ChangeError::invalid(None, "invalid_recipient", detail).into());
            }
            let actor = caller.actor();
            let user = match proves_address(&accepted.invite) {
                true => prove_address(&transaction, user, self.0.now()).await?,
                false => user,
            };
            self.join(&transaction, &actor, accepted, user).await
        };
        let joined = joined.await;
        self.0.finish(transaction, joined).await
    }

    /// Locks the organization of a token's invite, and refuses an expired one.
    async fn acceptable_invite(
        self,
        within: &DatabaseTransaction,
        token: &str,
    ) -> Result<AcceptableInvite, Abort> {
        let missing = || ChangeError::not_found("invite", &"...");
        let seen = find_by_token(within, token).await?.ok_or_else(missing)?;
        let organization = lock_organization(within, seen.organization_id).await?;
        // Read again, as the previous holder of the lock may have accepted or deleted it.
        let invite = find_by_token(within, token).await?.ok_or_else(missing)?;
        if invite.expires_at <= self.0.now() {
            let detail = "This invite has expired; ask for another one.";
            return Err(ChangeError::invalid(None, "expired", detail).into());
        }
        Ok(AcceptableInvite {
            organization,
            invite,
        })
    }

    async fn add_account(
        self,
        within: &DatabaseTransaction,
        new: NewUser,
        proved: bool,
    ) -> Result<users::Model, Abort> {
        let had = users::Entity::find()
            .filter(users::Column::Email.eq(new.email.as_str()))
            .one(within)
            .await?;
        if had.is_some() {
            return Err(account_exists());
        }
        let verified = proved.then_some(true);
        let made = insert_user(within, new, verified, self.0.now()).await;
        made.map_err(|error| {
            if is_duplicate(&error) {
                account_exists()
            } else {
                error.into()
            }
        })
    }

    async fn join(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        accepted: AcceptableInvite,
        user: users::Model,
    ) -> Result<Joined, Abort> {
        let AcceptableInvite {
            organization,
            invite,
        } = accepted;
        let (id, now) = (organization.id, self.0.now());
        let had = joined(id).filter(users::Column::Id.eq(user.id));
        if had.one(within).await?.is_some() {
            let detail = "You are a member of this organization already.";
            return Err(ChangeError::invalid(None, "user_already_member", detail).into());
        }
        let count = organization.member_count.unsigned_abs();
        must_have_fewer("An organization", MEMBERS_MAX, "members", count)?;
        let membership = insert_membership(within, id, user.id, invite.level, now).await?;
        mark_used(within, user.id).await?;
        let member = Member { membership, user };
        let audit = member_audit(Activity::Created, &member);
        let audit = audit.field("level", (), invite.level.number());
        self.0.record(within, actor, audit).await?;
        self.drop_of(within, actor, id, &invite.email_key).await?;
        Ok(Joined {
            organization,
            member,
            key: None,
            session: None,
        })
    }
}

/// Invite that may be accepted, and its organization, which is locked.
struct AcceptableInvite {
    organization: organizations::Model,
    invite: invites::Model,
}

/// Returns true if holding the token proves the account's address: nothing but the mail to that
/// address contains the token, which is generated anew whenever it is sent. Letters outside ASCII
/// must match in case.
fn proves_address(invite: &invites::Model) -> bool {
    let is_same = invite.target_email.eq_ignore_ascii_case(&invite.email_key);
    invite.emailing_attempt_made && is_same
}

fn account_exists() -> Abort {
    let detail = "This address has an account; accept the invite with one of its keys.";
    ChangeError::invalid(None, "account_exists", detail).into()
}

async fn find_by_token<C: ConnectionTrait>(
    db: &C,
    token: &str,
) -> Result<Option<invites::Model>, DbErr> {
    let Some(token) = SecretToken::parse(token) else {
        return Ok(None);
    };
    let found = invites::Entity::find()
        .filter(invites::Column::TokenHash.eq(token.hash()))
        .one(db)
        .await?;
    Ok(found.filter(|invite| token.has_hash(&invite.token_hash)))
}
