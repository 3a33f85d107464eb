//! Ids in their one accepted spelling.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Parses a UUID in its hyphenated form, in either case. The other forms of UUIDs, without
/// hyphens, in braces, as a URN, are refused.
pub(crate) fn parse(text: &str) -> Option<Uuid> {
    text.parse::<Hyphenated>().ok().map(Uuid::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hyphenated_uuids_are_ids() {
        let id = Uuid::from_u128(0x0190_f5fe_4e1a_7c3f_8a1b_2c3d_4e5f_60ab);
        let plain = id.to_string();
        let table = [
            (plain.clone(), true),
            (plain.to_uppercase(), true),
            (id.simple().to_string(), false),
            (id.braced().to_string(), false),
            (id.urn().to_string(), false),
            (format!(" {plain}"), false),
            (format!("{plain}0"), false),
            ("@current".to_owned(), false),
            (String::new(), false),
        ];
        for (text, is_id) in table {
            assert_eq!(parse(&text), is_id.then_some(id), "{text:?}");
        }
    }
}
