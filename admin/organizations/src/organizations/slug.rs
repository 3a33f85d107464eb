//! Slugs: short names of organizations for URLs.

use millrace_catalog::entities::organizations;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};

/// Longest slug before a suffix, in characters.
const SLUG_CHARS_MAX: usize = 48;

/// Letters of a suffix, and most suffixes that are tried.
const SUFFIX_LETTERS: usize = 4;
const SUFFIXES_MAX: usize = 16;

/// Finds a free slug for a name, with a suffix if another organization has the plain one. The
/// caller keeps others from taking it meanwhile.
pub(super) async fn free_slug<C: ConnectionTrait>(db: &C, name: &str) -> Result<String, DbErr> {
    let plain = slugify(name);
    let mut slug = plain.clone();
    for _ in 0..SUFFIXES_MAX {
        let taken = organizations::Entity::find()
            .filter(organizations::Column::Slug.eq(slug.as_str()))
            .count(db)
            .await?;
        if taken == 0 {
            break;
        }
        slug = format!("{plain}-{}", random_letters());
    }
    // The unique index refuses a slug that is taken after all.
    Ok(slug)
}

fn random_letters() -> String {
    // The first bytes of this version are random.
    let random = Uuid::new_v4().into_bytes().into_iter();
    let letters = random.map(|byte| char::from(b'a' + byte % 26));
    letters.take(SUFFIX_LETTERS).collect()
}

/// Slug of a name: letters and digits in lower case, everything else one hyphen.
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
