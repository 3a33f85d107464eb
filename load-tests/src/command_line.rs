//! Command line as results show it: ready to be typed again, but without keys, headers and
//! passwords.

/// Placeholder of a secret.
const HIDDEN: &str = "…";
/// Options whose values are secrets.
const SECRET: [&str; 3] = ["--key", "--header", "--clickhouse-password"];

/// Words of a command line, quoted where a shell needs it. The program is named without its folder,
/// and keys, headers and passwords are left out.
#[must_use]
pub fn shown(words: impl IntoIterator<Item = String>) -> String {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let mut text = match program.rsplit_once('/') {
        Some((_, name)) => name.to_owned(),
        None => program,
    };
    let mut is_secret = false;
    for word in words {
        text.push(' ');
        let option = word.split_once('=').map(|(option, _)| option);
        if std::mem::take(&mut is_secret) {
            text.push_str(HIDDEN);
        } else if let Some(option) = option.filter(|option| SECRET.contains(option)) {
            text.push_str(&format!("{option}={HIDDEN}"));
        } else {
            is_secret = SECRET.contains(&word.as_str());
            text.push_str(&quoted(&word));
        }
    }
    text
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed_again_but_for_its_secrets() {
        for (words, text) in [
            (&["/usr/bin/load", "-c", "4"][..], "load -c 4"),
            (&["load", "--key", "secret", "-q"], "load --key … -q"),
            (&["load", "--key=secret", "-q"], "load --key=… -q"),
            (&["load", "--keys-file", "keys"], "load --keys-file keys"),
            (
                &["load", "--header", "A: secret", "-q"],
                "load --header … -q",
            ),
            (
                &["load", "--clickhouse-password", "secret"],
                "load --clickhouse-password …",
            ),
            (
                &["load", "--clickhouse-password=a=b"],
                "load --clickhouse-password=…",
            ),
            (&["load", "--json", "a b"], "load --json 'a b'"),
            (&["load", "--json", "it's", ""], "load --json 'it'\\''s' ''"),
        ] {
            let words = words.iter().map(|&word| word.to_owned());
            assert_eq!(shown(words), text);
        }
    }
}
