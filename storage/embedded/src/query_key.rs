//! Passwords of the user [`QUERY`](crate::QUERY), by which the program logs in for a project.
//!
//! They are computed from the password of the server's own user, which the engine and each process
//! that uses it know: so no process has to ask another one for a password, none is stored, and a
//! restart of either changes nothing. Whoever has the own user's password may read all rows anyway.
//! The rows of a project are visible to this user by the token that belongs to such a password, as
//! they are to the project's own user by the token of that one's password.

use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::users_file::hex;

/// Hashes that a guess of the own user's password costs. A statement can print its token, which is
/// computed from that password, and one that somebody chose may be short.
const ROUNDS: u32 = 1 << 18;

/// Key from which the passwords of an engine are computed.
#[derive(Clone)]
pub struct QueryKey([u8; 32]);

// === impl QueryKey ===

impl QueryKey {
    /// Key of the engine whose own user has this password. Takes a while at first, and none for the
    /// password that was given last.
    #[must_use]
    pub fn of(own_password: &str) -> Self {
        static LAST: Mutex<Option<([u8; 32], QueryKey)>> = Mutex::new(None);
        let digest: [u8; 32] = Sha256::digest(own_password.as_bytes()).into();
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, key)) = &*last
            && *known == digest
        {
            return key.clone();
        }
        let key = Self::computed(own_password);
        *last = Some((digest, key.clone()));
        key
    }

    fn computed(own_password: &str) -> Self {
        // Counts up where the tokens of before must be void.
        let text = format!("millrace key 2 of project_query:{own_password}");
        let mut key: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        for _ in 0..ROUNDS {
            let mut hasher = Sha256::new();
            hasher.update(key);
            hasher.update(own_password.as_bytes());
            key = hasher.finalize().into();
        }
        Self(key)
    }

    /// Password for a project.
    #[must_use]
    pub fn password(&self, project_id: i64) -> String {
        // Twice, so that nothing can be appended to what is hashed.
        let inner = self.hash(project_id.to_string().as_bytes());
        format!("{project_id}_{}", hex(&self.hash(&inner)))
    }

    /// Returns true for the password of any project.
    pub(crate) fn accepts(&self, password: &str) -> bool {
        let id = password.split_once('_').and_then(|(id, _)| id.parse().ok());
        id.is_some_and(|id| {
            let expected = self.password(id);
            bool::from(expected.as_bytes().ct_eq(password.as_bytes()))
        })
    }

    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(bytes);
        hasher.finalize().into()
    }
}

impl std::fmt::Debug for QueryKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_accepted_by_its_own_engine_for_its_own_project() {
        let (key, other) = (QueryKey::of("a"), QueryKey::of("b"));
        let password = key.password(7);
        assert!(password.starts_with("7_"), "{password}");
        assert_eq!(password, QueryKey::of("a").password(7));
        let (_, proof) = password.split_once('_').unwrap();
        let table = [
            (password.clone(), true),
            (key.password(8), true),
            (other.password(7), false),
            (format!("8_{proof}"), false),
            (format!("07_{proof}"), false),
            (format!("+7_{proof}"), false),
            (format!("{password}0"), false),
            ("7_".to_owned(), false),
            ("a".to_owned(), false),
            (String::new(), false),
        ];
        for (password, expected) in table {
            assert_eq!(key.accepts(&password), expected, "{password}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", QueryKey::of("a")), "QueryKey { .. }");
    }
}
