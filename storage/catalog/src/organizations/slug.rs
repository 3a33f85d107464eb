//! Short names for addresses, made of names.

use crate::entities::organizations;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};

/// The longest slug before a suffix, in characters.
const SLUG_CHARS_MAX: usize = 48;

/// The slug of a name, or that with a suffix if another organization has it. The suffix is the
/// random end of the id, so that two that are made at the same time do not collide either.
pub(super) async fn free_slug<C: ConnectionTrait>(
    db: &C,
    name: &str,
    id: Uuid,
) -> Result<String, DbErr> {
    let slug = slugify(name);
    let taken = organizations::Entity::find()
        .filter(organizations::Column::Slug.eq(slug.as_str()))
        .count(db)
        .await?;
    if taken == 0 {
        return Ok(slug);
    }
    let id = id.simple().to_string();
    let (_, suffix) = id.split_at_checked(24).unwrap_or_default();
    Ok(format!("{slug}-{suffix}"))
}

/// Letters and digits in lower case, everything else one hyphen.
fn slugify(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if slug.len() >= SLUG_CHARS_MAX {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "organization".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_lower_case_ascii_words() {
        let table = [
            ("Default organization", "default-organization"),
            ("  Ünïcode & Söhne ", "n-code-s-hne"),
            ("東京", "organization"),
            ("--a--", "a"),
            (&"x".repeat(64), &"x".repeat(48)),
        ];
        for (name, slug) in table {
            assert_eq!(slugify(name), slug);
        }
    }
}
