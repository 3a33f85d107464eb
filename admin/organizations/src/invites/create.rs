//! Creating invites, and new links for them.

use super::validation::{CheckedInvite, blame_item, find_duplicate, must_be_no_member, must_fit};
use super::{Invite, Invites, NewInvite, find_invite, invite_audit};
use crate::secret_token::SecretToken;
use millrace_catalog::entities::{organization_invites as invites, organizations, users};
use millrace_catalog::features::ADVANCED_PERMISSIONS;
use millrace_catalog::limits::{self, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{Activity, Actor, ChangeError, Level};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};

/// Lifetime of a token, in microseconds: three days.
const LIFE_MICROS: i64 = 3 * 24 * 3_600_000_000;
/// Most invites of one request.
const INVITES_MAX: usize = 20;

/// Invite with its new token, which is known only now.
#[derive(Clone, Debug)]
pub struct SentInvite {
    /// Invite as members see it.
    pub invite: Invite,
    /// Secret of its link.
    pub token: SecretToken,
    /// Organization, for the mail.
    pub organization: organizations::Model,
}

impl Invites<'_> {
    /// Creates an invite, which replaces an older one of the address; any member may.
    ///
    /// # Errors
    ///
    /// A field is malformed, the level or that of the older invite is above the actor's, the
    /// address is a member's already, or a project is unknown or its level above the actor's.
    pub async fn create(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewInvite,
    ) -> Result<SentInvite, ChangeError> {
        let item = new.checked()?;
        let transaction = self.0.begin().await?;
        let made = async {
            let organization = lock_organization(&transaction, organization_id).await?;
            self.invite(&transaction, actor, &organization, item).await
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    /// Creates several invites at once: all of them, or none.
    ///
    /// # Errors
    ///
    /// Those of [`Invites::create`], the field prefixed with the index of the item, from 0,
    /// as in `4__target_email`; an address twice; more than 20.
    pub async fn create_all(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: Vec<NewInvite>,
    ) -> Result<Vec<SentInvite>, ChangeError> {
        if new.len() > INVITES_MAX {
            let detail = format!("At most {INVITES_MAX} people are invited at once.");
            return Err(ChangeError::invalid(None, "max_length", detail));
        }
        let mut items = Vec::with_capacity(new.len());
        for (index, new) in new.into_iter().enumerate() {
            let item = new.checked().map_err(|error| blame_item(index, error))?;
            items.push(item);
        }
        if let Some(index) = find_duplicate(&items) {
            let detail = "This address is in the list already.";
            let error = ChangeError::invalid("target_email", "duplicate", detail);
            return Err(blame_item(index, error));
        }
        let transaction = self.0.begin().await?;
        let made = self.invite_all(&transaction, actor, organization_id, items);
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    async fn invite_all(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        items: Vec<CheckedInvite>,
    ) -> Result<Vec<SentInvite>, Abort> {
        let organization = lock_organization(within, organization_id).await?;
        let mut made = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let invited = self.invite(within, actor, &organization, item).await;
            made.push(invited.map_err(|abort| match abort {
                Abort::Rule(error) => Abort::Rule(blame_item(index, error)),
                abort @ Abort::Database(_) => abort,
            })?);
        }
        Ok(made)
    }

    async fn invite(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization: &organizations::Model,
        item: CheckedInvite,
    ) -> Result<SentInvite, Abort> {
        let id = organization.id;
        let acting = must_act_as(within, actor, id, Level::Member).await?;
        if !item.access.0.is_empty() {
            organization.must_have(ADVANCED_PERMISSIONS)?;
        }
        must_fit(within, id, acting, &item).await?;
        self.drop_of(within, actor, id, &item.email_key).await?;
        let own = invites::Column::OrganizationId.eq(id);
        let had = invites::Entity::find().filter(own).count(within).await?;
        must_have_fewer("An organization", limits::INVITES_MAX, "invites", had)?;
        let token = SecretToken::generate()?;
        let now = self.0.now();
        let row = invites::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(id),
            target_email: ActiveValue::Set(item.target_email),
            email_key: ActiveValue::Set(item.email_key),
            first_name: ActiveValue::Set(item.first_name),
            level: ActiveValue::Set(item.level),
            message: ActiveValue::Set(item.message),
            private_project_access: ActiveValue::Set(item.access),
            emailing_attempt_made: ActiveValue::Set(item.emailing_attempt_made),
            token_hash: ActiveValue::Set(token.hash()),
            expires_at: ActiveValue::Set(now.plus_micros(LIFE_MICROS)),
            created_by_id: ActiveValue::Set(actor.user_id()),
            created_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
        };
        let inserted = invites::Entity::insert(row);
        let record = inserted.exec_with_returning(within).await?;
        let audit = invite_audit(Activity::Created, &record)
            .field("target_email", (), &record.target_email)
            .field("level", (), record.level.number());
        self.0.record(within, actor, audit).await?;
        self.sent(within, record, token, organization.clone()).await
    }

    async fn sent(
        self,
        within: &DatabaseTransaction,
        record: invites::Model,
        token: SecretToken,
        organization: organizations::Model,
    ) -> Result<SentInvite, Abort> {
        let created_by = match record.created_by_id {
            Some(id) => users::Entity::find_by_id(id).one(within).await?,
            None => None,
        };
        Ok(SentInvite {
            invite: Invite::new(record, created_by, self.0.now()),
            token,
            organization,
        })
    }

    /// Creates a new link for an invite, which works for three days from now; the old one stops
    /// working. Any member may, up to their own level. With `emailing_attempt_made`, nothing but
    /// the mail may contain the token.
    ///
    /// # Errors
    ///
    /// The organization has no such invite, its level is above the actor's, or the address is a
    /// member's by now.
    pub async fn resend(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
        emailing_attempt_made: bool,
    ) -> Result<SentInvite, ChangeError> {
        let transaction = self.0.begin().await?;
        let sent = async {
            let organization = lock_organization(&transaction, organization_id).await?;
            let mut invite = find_invite(&transaction, organization_id, id).await?;
            must_act_as(&transaction, actor, organization_id, invite.level).await?;
            must_be_no_member(&transaction, organization_id, &invite.email_key).await?;
            let token = SecretToken::generate()?;
            let before = invite.expires_at;
            let now = self.0.now();
            invite.token_hash = token.hash();
            invite.expires_at = now.plus_micros(LIFE_MICROS);
            invite.emailing_attempt_made = emailing_attempt_made;
            invite.updated_at = now;
            let row = invite.into_active_model().reset_all();
            let record = invites::Entity::update(row).exec(&transaction).await?;
            let audit = invite_audit(Activity::Updated, &record);
            let audit = audit.field("expires_at", before, record.expires_at);
            self.0.record(&transaction, actor, audit).await?;
            self.sent(&transaction, record, token, organization).await
        };
        let sent = sent.await;
        self.0.finish(transaction, sent).await
    }
}
