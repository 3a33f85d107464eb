//! People.

use crate::catalog::Catalog;
use crate::entities::users;
use crate::error::{CatalogError, ChangeError, is_duplicate};
use crate::time::UtcTime;
use email_address::{EmailAddress, Options};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder,
};

/// The longest address, in characters.
const EMAIL_CHARS_MAX: usize = 254;

/// What a new user needs.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// Kept in lower case.
    pub email: String,
    /// May be empty.
    pub first_name: String,
    /// May be empty.
    pub last_name: String,
}

impl Catalog {
    /// Adds a user without any membership.
    ///
    /// # Errors
    ///
    /// The address is none, or taken.
    pub async fn create_user(&self, new: NewUser) -> Result<users::Model, ChangeError> {
        let email = checked_email(&new.email)?;
        let new = NewUser {
            email: email.clone(),
            ..new
        };
        match insert_user(&self.writer, new, None, self.now()).await {
            Ok(user) => Ok(user),
            Err(error) if is_duplicate(&error) => Err(ChangeError::EmailTaken(email)),
            Err(error) => Err(self.error(&error).into()),
        }
    }

    /// Finds a user by address, whatever its case.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn user_by_email(&self, email: &str) -> Result<Option<users::Model>, CatalogError> {
        users::Entity::find()
            .filter(users::Column::Email.eq(email.trim().to_lowercase()))
            .one(&self.db)
            .await
            .map_err(|error| self.error(&error))
    }

    /// All users, oldest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_users(&self) -> Result<Vec<users::Model>, CatalogError> {
        users::Entity::find()
            .order_by_asc(users::Column::Id)
            .all(&self.db)
            .await
            .map_err(|error| self.error(&error))
    }
}

/// An address in lower case. Only a mail can prove it; this refuses what is plainly none.
pub(crate) fn checked_email(email: &str) -> Result<String, ChangeError> {
    let email = email.trim().to_lowercase();
    if is_email(&email) {
        Ok(email)
    } else {
        Err(ChangeError::BadEmail(email))
    }
}

/// Whether mail could be sent there: by RFC 5322, without a name beside it, and without the
/// white space that it allows in quotes.
pub(crate) fn is_email(email: &str) -> bool {
    let strict = Options::default()
        .without_display_text()
        .without_domain_literal()
        .with_no_minimum_sub_domains();
    let printable = !email.contains(|c: char| c.is_whitespace() || c.is_control());
    printable
        && email.chars().count() <= EMAIL_CHARS_MAX
        && EmailAddress::parse_with_options(email, strict).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_lower_case_and_plausible() {
        assert_eq!(
            checked_email(" Ann@Example.COM ").unwrap(),
            "ann@example.com"
        );
        assert_eq!(checked_email("owner@localhost").unwrap(), "owner@localhost");
        let long = format!("{}@b", "a".repeat(254));
        for wrong in [
            "", "ann", "@b", "a@", "a@b@c", "a b@c", "a\n@c", "A <a@b>", "a@[::1]", &long,
        ] {
            assert!(checked_email(wrong).is_err(), "{wrong:?}");
        }
    }
}
