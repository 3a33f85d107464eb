//! Settings of tests, by which `make torture` makes them longer or repeats a run of them.

use std::str::FromStr;

/// Number in an environment variable; the default if it is not set.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no other way to be told"
)]
#[expect(
    clippy::panic,
    reason = "for tests, where a wrong setting is a failure"
)]
#[must_use]
pub fn number_from_env<T: FromStr>(variable: &str, default: T) -> T {
    let Ok(text) = std::env::var(variable) else {
        return default;
    };
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{variable} is no such number: {text}"))
}
