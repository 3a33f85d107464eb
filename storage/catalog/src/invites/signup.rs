//! Accepting an invite: with a new account, or with the one that the address has.

use super::InviteToken;
use crate::activity::Activity;
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{organization_invites as invites, organizations, users};
use crate::error::{CatalogError, ChangeError, is_duplicate};
use crate::limits::{MEMBERS_MAX, must_have_fewer};
use crate::members::{Member, joined, member_deed};
use crate::names::checked_text;
use crate::organizations::insert_membership;
use crate::personal_keys::{Caller, CreatedPersonalKey, Terms};
use crate::scopes::Scopes;
use crate::transaction::{Abort, lock_organization};
use crate::users::{NewUser, insert_user};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
};

/// The longest first or last name, in characters.
const NAME_CHARS_MAX: usize = 150;
const KEY_LABEL: &str = "First key";

/// An invite as whoever holds its token sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInvite {
    /// Itself.
    pub record: invites::Model,
    /// What the organization is called.
    pub organization_name: String,
    /// Whether it is too late.
    pub is_expired: bool,
}

/// What came of accepting.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Where.
    pub organization: organizations::Model,
    /// Who, and with which level.
    pub member: Member,
    /// A first key, with scope `*`, for who had no account.
    pub key: Option<CreatedPersonalKey>,
}

impl Catalog {
    /// The invite that a token opens; `None` if there is none, or it was used.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn open_invite(&self, token: &str) -> Result<Option<OpenInvite>, CatalogError> {
        let read = async {
            let Some(record) = find_by_token(&self.db, token).await? else {
                return Ok(None);
            };
            let id = record.organization_id;
            let organization = organizations::Entity::find_by_id(id).one(&self.db).await?;
            Ok(organization.map(|organization| OpenInvite {
                is_expired: record.expires_at <= self.now(),
                record,
                organization_name: organization.name,
            }))
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// Makes an account for the address of an invite, and makes it a member.
    ///
    /// # Errors
    ///
    /// No such invite; `expired`; `account_exists`: its owner accepts with a key; a name too long.
    pub async fn accept_invite_as_new(
        &self,
        token: &str,
        first_name: &str,
        last_name: &str,
    ) -> Result<Joined, ChangeError> {
        let first_name = checked_text("first_name", first_name, NAME_CHARS_MAX)?;
        let last_name = checked_text("last_name", last_name, NAME_CHARS_MAX)?;
        let transaction = self.begin().await?;
        let joined = async {
            let accepting = self.accepting(&transaction, token).await?;
            let new = NewUser {
                email: accepting.invite.email_key.clone(),
                first_name,
                last_name,
            };
            let proved = proves_address(&accepting.invite);
            let user = self.add_account(&transaction, new, proved).await?;
            let actor = Actor::user(&user, None);
            let mut joined = self.join(&transaction, &actor, accepting, user).await?;
            let terms = Terms {
                label: KEY_LABEL.to_owned(),
                scopes: Scopes::all(),
                expires_at: None,
                scoped_organizations: None,
            };
            let user_id = joined.member.user.id;
            let key = self.add_key(&transaction, &actor, user_id, terms).await?;
            joined.key = Some(key);
            Ok(joined)
        };
        let joined = joined.await;
        self.finish(transaction, joined).await
    }

    /// Makes the caller a member, if the invite is for the caller's address.
    ///
    /// # Errors
    ///
    /// The key is limited to other organizations; no such invite; `expired`;
    /// `invalid_recipient`: it is for another address; `user_already_member`.
    pub async fn accept_invite_as(
        &self,
        token: &str,
        caller: &Caller,
    ) -> Result<Joined, ChangeError> {
        if caller.scoped_organizations.is_some() {
            let detail = "This key is limited to some organizations and cannot join another.";
            return Err(ChangeError::forbidden(detail));
        }
        let transaction = self.begin().await?;
        let joined = async {
            let accepting = self.accepting(&transaction, token).await?;
            let user = caller.user.clone();
            if accepting.invite.email_key != user.email {
                let detail = "This invite is for another address.";
                return Err(ChangeError::invalid(None, "invalid_recipient", detail).into());
            }
            let actor = caller.actor();
            let user = match proves_address(&accepting.invite) {
                true => self.address_proved(&transaction, user).await?,
                false => user,
            };
            self.join(&transaction, &actor, accepting, user).await
        };
        let joined = joined.await;
        self.finish(transaction, joined).await
    }

    /// The invite of a token that still works; its organization is locked.
    async fn accepting(
        &self,
        within: &DatabaseTransaction,
        token: &str,
    ) -> Result<Accepting, Abort> {
        let missing = || ChangeError::not_found("invite", &"...");
        let seen = find_by_token(within, token).await?.ok_or_else(missing)?;
        let organization = lock_organization(within, seen.organization_id).await?;
        // Again, as whoever held the lock may have accepted or deleted it.
        let invite = find_by_token(within, token).await?.ok_or_else(missing)?;
        if invite.expires_at <= self.now() {
            let detail = "This invite has expired; ask for another one.";
            return Err(ChangeError::invalid(None, "expired", detail).into());
        }
        Ok(Accepting {
            organization,
            invite,
        })
    }

    async fn add_account(
        &self,
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
        let made = insert_user(within, new, verified, self.now()).await;
        made.map_err(|error| {
            if is_duplicate(&error) {
                account_exists()
            } else {
                error.into()
            }
        })
    }

    /// Notes that what was mailed to a user's address reached them.
    async fn address_proved(
        &self,
        within: &DatabaseTransaction,
        user: users::Model,
    ) -> Result<users::Model, Abort> {
        if user.is_email_verified == Some(true) {
            return Ok(user);
        }
        let change = users::ActiveModel {
            id: ActiveValue::Unchanged(user.id),
            is_email_verified: ActiveValue::Set(Some(true)),
            updated_at: ActiveValue::Set(self.now()),
            ..Default::default()
        };
        Ok(users::Entity::update(change).exec(within).await?)
    }

    async fn join(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        accepting: Accepting,
        user: users::Model,
    ) -> Result<Joined, Abort> {
        let Accepting {
            organization,
            invite,
        } = accepting;
        let (id, now) = (organization.id, self.now());
        let had = joined(id).filter(users::Column::Id.eq(user.id));
        if had.one(within).await?.is_some() {
            let detail = "You are a member of this organization already.";
            return Err(ChangeError::invalid(None, "user_already_member", detail).into());
        }
        let count = organization.member_count.unsigned_abs();
        must_have_fewer("An organization", MEMBERS_MAX, "members", count)?;
        let membership = insert_membership(within, id, user.id, invite.level, now).await?;
        let member = Member { membership, user };
        let deed = member_deed(Activity::Created, &member);
        let deed = deed.field("level", (), invite.level.number());
        self.record(within, actor, deed).await?;
        self.drop_invites_of(within, actor, id, &invite.email_key)
            .await?;
        Ok(Joined {
            organization,
            member,
            key: None,
        })
    }
}

struct Accepting {
    organization: organizations::Model,
    invite: invites::Model,
}

/// Whether who holds the token has read what was mailed to the account's address: nothing but that mail
/// has the token, which is made anew whenever it is sent. The case of letters that are not ASCII is not
/// taken for nothing.
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
    let Some(token) = InviteToken::parse(token) else {
        return Ok(None);
    };
    let found = invites::Entity::find()
        .filter(invites::Column::TokenHash.eq(token.hash()))
        .one(db)
        .await?;
    Ok(found.filter(|invite| token.has_hash(&invite.token_hash)))
}
