//! Format of keys, which tells garbage from keys without a look-up.
//!
//! | Kind | Format |
//! |---|---|
//! | project key | `phc_`, 37 random base62 characters, 6 base62 characters of their CRC-32 |
//! | personal key | `phx_` and the same |
//!
//! The checksum is no secret: it lets garbage be refused before any look-up. Projects taken over
//! from elsewhere keep the keys that their SDKs already hold, so a project key may also be any
//! other printable ASCII string. Such keys may even have our form and not our checksum; see
//! [`ProjectKeyForm::WrongChecksum`].

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// Prefix of every project key that we generate.
pub const PROJECT_KEY_PREFIX: &str = "phc_";
/// Prefix of every personal key.
pub const PERSONAL_KEY_PREFIX: &str = "phx_";
/// Longest project key, in bytes.
pub const PROJECT_KEY_BYTES_MAX: usize = 64;

const RANDOM_CHARS: usize = 37;
const CHECKSUM_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Kind of a project key, by its format alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectKeyForm {
    /// Key that we generated, or a very good guess.
    Ours,
    /// Our format but not our checksum: garbage, unless it was brought in from elsewhere.
    WrongChecksum,
    /// Key brought in from elsewhere, or garbage; only a look-up can tell.
    Foreign,
    /// No project can have this key.
    Malformed(KeyFormError),
}

impl ProjectKeyForm {
    /// Classifies `key` by its format.
    #[must_use]
    pub fn of(key: &str) -> Self {
        if let Err(error) = check_form(key) {
            return Self::Malformed(error);
        }
        match key.strip_prefix(PROJECT_KEY_PREFIX).and_then(checksum_of) {
            Some(true) => Self::Ours,
            Some(false) => Self::WrongChecksum,
            None => Self::Foreign,
        }
    }
}

/// Reason why a string cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFormError {
    /// Empty, or white space only.
    #[error("the key is blank")]
    Blank,
    /// Characters that no key has.
    #[error("a key has printable ASCII characters only")]
    NotAscii,
    /// Longer than [`PROJECT_KEY_BYTES_MAX`].
    #[error("a key has at most 64 characters")]
    TooLong,
    /// Personal key, which never belongs into an event.
    #[error("this is a personal key (phx_…); a project key is needed")]
    PersonalKey,
    /// Not a personal key, or a mistyped one.
    #[error("a personal key is phx_ and 43 letters and digits; this one is mistyped or cut off")]
    NotPersonal,
}

fn check_form(key: &str) -> Result<(), KeyFormError> {
    if key.trim().is_empty() {
        Err(KeyFormError::Blank)
    } else if !key.is_ascii() {
        Err(KeyFormError::NotAscii)
    } else if key.len() > PROJECT_KEY_BYTES_MAX {
        Err(KeyFormError::TooLong)
    } else if key.starts_with(PERSONAL_KEY_PREFIX) {
        Err(KeyFormError::PersonalKey)
    } else {
        Ok(())
    }
}

/// Checks a project key that an operator chose.
///
/// # Errors
///
/// The rule that the key breaks. The rules are stricter than those of the ingestion path: no white
/// space, no control characters.
pub fn check_chosen_project_key(key: &str) -> Result<(), KeyFormError> {
    check_form(key)?;
    if key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(KeyFormError::NotAscii)
    }
}

/// Generates a project key.
///
/// # Errors
///
/// The system has no randomness to give.
pub fn generate_project_key() -> Result<String, getrandom::Error> {
    generate(PROJECT_KEY_PREFIX)
}

/// Personal key in plain text. `Debug` shows the mask only.
#[derive(Clone)]
pub struct PersonalKey(String);

impl PersonalKey {
    /// Generates a personal key.
    ///
    /// # Errors
    ///
    /// The system has no randomness to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        generate(PERSONAL_KEY_PREFIX).map(Self)
    }

    /// Parses a presented key.
    ///
    /// # Errors
    ///
    /// [`KeyFormError::NotPersonal`] unless form and checksum are right.
    pub fn parse(key: &str) -> Result<Self, KeyFormError> {
        match key.strip_prefix(PERSONAL_KEY_PREFIX).and_then(checksum_of) {
            Some(true) => Ok(Self(key.to_owned())),
            _ => Err(KeyFormError::NotPersonal),
        }
    }

    /// Secret in plain text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Mask for people: first 4 characters, `...`, last 4.
    #[must_use]
    pub fn mask(&self) -> String {
        mask(&self.0)
    }

    /// SHA-256 of the key in lower-case hex, which the catalog stores. The key has 220 random bits,
    /// so neither salt nor stretching would add anything.
    #[must_use]
    pub fn hash(&self) -> String {
        sha256_hex(self.0.as_bytes())
    }

    /// Returns true if `kept` is the hash of this key, in constant time.
    #[must_use]
    pub fn has_hash(&self, kept: &str) -> bool {
        is_hash_of(self.0.as_bytes(), kept)
    }
}

impl fmt::Debug for PersonalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PersonalKey({})", self.mask())
    }
}

/// Masks a key: first 4 characters, `...`, last 4; a key of 8 or fewer is hidden whole.
#[must_use]
pub fn mask(key: &str) -> String {
    match (
        key.get(..4),
        key.len().checked_sub(4).and_then(|at| key.get(at..)),
    ) {
        (Some(first), Some(last)) if key.len() > 8 => format!("{first}...{last}"),
        _ => "...".to_owned(),
    }
}

fn generate(prefix: &str) -> Result<String, getrandom::Error> {
    let mut key = String::with_capacity(prefix.len() + RANDOM_CHARS + CHECKSUM_CHARS);
    key.push_str(prefix);
    let mut pool = [0_u8; 64];
    while key.len() < prefix.len() + RANDOM_CHARS {
        getrandom::fill(&mut pool)?;
        let missing = prefix.len() + RANDOM_CHARS - key.len();
        key.extend(fair_digits(&pool).take(missing));
    }
    let checksum = checksum(key.as_bytes().get(prefix.len()..).unwrap_or_default());
    key.extend(checksum);
    Ok(key)
}

/// Characters from random bytes, none likelier than another: 248 is the largest multiple of 62 in a
/// byte.
fn fair_digits(bytes: &[u8]) -> impl Iterator<Item = char> {
    let fair = bytes.iter().filter(|&&byte| byte < 248);
    fair.map(|byte| base62_digit(u32::from(*byte)))
}

/// Returns true if the checksum is right; `None` unless the rest of a key has our format.
fn checksum_of(rest: &str) -> Option<bool> {
    if rest.len() != RANDOM_CHARS + CHECKSUM_CHARS
        || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return None;
    }
    let (random, claimed) = rest.split_at_checked(RANDOM_CHARS)?;
    Some(checksum(random.as_bytes()).into_iter().eq(claimed.chars()))
}

/// CRC-32 (IEEE) as six base62 digits, the most significant first.
fn checksum(random: &[u8]) -> [char; CHECKSUM_CHARS] {
    let mut left = crc32fast::hash(random);
    let mut digits = ['0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = base62_digit(left);
        left /= 62;
    }
    digits
}

fn base62_digit(value: u32) -> char {
    let digit = BASE62.get(value as usize % BASE62.len());
    char::from(digit.copied().unwrap_or(b'0'))
}

/// Returns true if `kept` is the hash of a secret, in constant time.
#[must_use]
pub fn is_hash_of(secret: &[u8], kept: &str) -> bool {
    sha256_hex(secret).as_bytes().ct_eq(kept.as_bytes()).into()
}

/// Hashes bytes with SHA-256, in lower-case hex.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn project_keys_are_classified_by_their_format() {
        use KeyFormError::{Blank, NotAscii, PersonalKey, TooLong};
        use ProjectKeyForm::{Foreign, Malformed, WrongChecksum};
        let table = [
            ("", Malformed(Blank)),
            (" \t", Malformed(Blank)),
            ("phc_ключ", Malformed(NotAscii)),
            ("phx_anything", Malformed(PersonalKey)),
            (&"k".repeat(65), Malformed(TooLong)),
            (&"k".repeat(64), Foreign),
            ("sTMFPsFhdP1Ssg", Foreign),
            ("phc_recording000000000000000000000000000000", Foreign),
            (
                "phc_recording0000000000000000000000000000000_posthog",
                Foreign,
            ),
            (
                "phc_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                WrongChecksum,
            ),
        ];
        for (key, form) in table {
            assert_eq!(ProjectKeyForm::of(key), form, "{key}");
        }
    }

    #[test]
    fn the_checksum_is_the_crc_of_the_random_part() {
        let random = "0".repeat(37);
        let digits: String = checksum(random.as_bytes()).iter().collect();
        let value = digits.bytes().fold(0_u64, |sum, byte| {
            sum * 62 + BASE62.iter().position(|digit| *digit == byte).unwrap() as u64
        });
        assert_eq!(value, u64::from(crc32fast::hash(random.as_bytes())));
        let key = format!("phc_{random}{digits}");
        assert_eq!(ProjectKeyForm::of(&key), ProjectKeyForm::Ours);
    }

    #[test]
    fn generated_keys_differ_and_have_our_form() {
        let first = generate_project_key().unwrap();
        let second = generate_project_key().unwrap();
        assert_ne!(first, second);
        assert_eq!(first.len(), 47);
        assert_eq!(ProjectKeyForm::of(&first), ProjectKeyForm::Ours);
        let personal = PersonalKey::generate().unwrap();
        assert!(PersonalKey::parse(personal.expose()).is_ok());
    }

    #[test]
    fn no_character_of_a_key_is_likelier_than_another() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let digits: String = fair_digits(&bytes).collect();
        assert_eq!(digits, str::from_utf8(BASE62).unwrap().repeat(4));
    }

    #[test]
    fn masks_hide_all_but_the_ends() {
        let table = [
            ("phx_0123456789abcd", "phx_...abcd"),
            ("phx_abcd", "..."),
            ("", "..."),
            ("123456789", "1234...6789"),
        ];
        for (key, masked) in table {
            assert_eq!(mask(key), masked);
        }
        let key = PersonalKey::generate().unwrap();
        assert_eq!(key.mask(), mask(key.expose()));
        assert!(!format!("{key:?}").contains(key.expose()));
    }

    #[test]
    fn a_personal_key_is_stored_as_its_sha256() {
        let key = PersonalKey("abc".to_owned());
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(key.hash(), sha256);
        assert!(key.has_hash(sha256));
        assert!(!key.has_hash(&sha256.replace('b', "c")));
        assert!(!key.has_hash(""));
    }

    #[test]
    fn chosen_keys_have_no_white_space() {
        assert_eq!(check_chosen_project_key("phc_mine"), Ok(()));
        for key in ["a b", "a\n", "\u{7f}", "a\0b"] {
            assert_eq!(check_chosen_project_key(key), Err(KeyFormError::NotAscii));
        }
    }

    proptest! {
        #[test]
        fn any_string_can_be_classified(key in any::<String>()) {
            let malformed = matches!(ProjectKeyForm::of(&key), ProjectKeyForm::Malformed(_));
            let allowed = !key.trim().is_empty() && key.is_ascii() && key.len() <= 64
                && !key.starts_with("phx_");
            prop_assert_eq!(malformed, !allowed);
            prop_assert!(mask(&key).len() <= 11);
        }

        #[test]
        fn one_changed_character_is_noticed(at in 0_usize..43, with in "[0-9A-Za-z]") {
            let key = PersonalKey::generate().unwrap();
            let mut changed = key.expose().to_owned();
            changed.replace_range(4 + at..5 + at, &with);
            prop_assert_eq!(PersonalKey::parse(&changed).is_ok(), changed == key.expose());
        }
    }
}
