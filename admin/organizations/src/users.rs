//! Users.

use millrace_catalog::email::Email;
use millrace_catalog::entities::users;
use millrace_catalog::{Catalog, CatalogError, ChangeError, UtcTime, is_duplicate};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};

/// Input for a new user.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// Address, stored in its normal form: see `email`.
    pub email: String,
    /// First name; may be empty.
    pub first_name: String,
    /// Last name; may be empty.
    pub last_name: String,
}

/// Users of all organizations.
#[derive(Clone, Copy, Debug)]
pub struct Users<'a>(&'a Catalog);

impl<'a> Users<'a> {
    /// Returns a handle to the users in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Users<'_> {
    /// Adds a user without any membership.
    ///
    /// # Errors
    ///
    /// The address is malformed, or taken.
    pub async fn create(self, new: NewUser) -> Result<users::Model, ChangeError> {
        let email = checked_email(&new.email)?;
        let new = NewUser {
            email: email.clone(),
            ..new
        };
        match insert_user(self.0.writer(), new, None, self.0.now()).await {
            Ok(user) => Ok(user),
            Err(error) if is_duplicate(&error) => Err(ChangeError::EmailTaken(email)),
            Err(error) => Err(self.0.error(&error).into()),
        }
    }

    /// Finds a user by any spelling of the address.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn by_email(self, email: &str) -> Result<Option<users::Model>, CatalogError> {
        users::Entity::find()
            .filter(users::Column::Email.eq(Email::key_of(email)))
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))
    }

    /// Lists all users, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(self) -> Result<Vec<users::Model>, CatalogError> {
        users::Entity::find()
            .order_by_asc(users::Column::Id)
            .all(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))
    }
}

/// Validates an address and returns the key that identifies its owner.
pub(crate) fn checked_email(text: &str) -> Result<String, ChangeError> {
    let parsed = Email::parse(text).map(|email| email.key);
    parsed.ok_or_else(|| ChangeError::BadEmail(text.trim().to_owned()))
}

/// Marks a user's address as verified.
pub(crate) async fn prove_address(
    within: &DatabaseTransaction,
    user: users::Model,
    now: UtcTime,
) -> Result<users::Model, DbErr> {
    if user.is_email_verified == Some(true) {
        return Ok(user);
    }
    let change = users::ActiveModel {
        id: ActiveValue::Unchanged(user.id),
        is_email_verified: ActiveValue::Set(Some(true)),
        updated_at: ActiveValue::Set(now),
        ..Default::default()
    };
    users::Entity::update(change).exec(within).await
}

pub(crate) async fn insert_user<C: ConnectionTrait>(
    db: &C,
    new: NewUser,
    is_email_verified: Option<bool>,
    now: UtcTime,
) -> Result<users::Model, DbErr> {
    let uuid = Uuid::now_v7();
    let row = users::ActiveModel {
        id: ActiveValue::NotSet,
        uuid: ActiveValue::Set(uuid),
        distinct_id: ActiveValue::Set(uuid.to_string()),
        email: ActiveValue::Set(new.email),
        first_name: ActiveValue::Set(new.first_name),
        last_name: ActiveValue::Set(new.last_name),
        is_email_verified: ActiveValue::Set(is_email_verified),
        is_active: ActiveValue::Set(true),
        created_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
    };
    users::Entity::insert(row).exec_with_returning(db).await
}
