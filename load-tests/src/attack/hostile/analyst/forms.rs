//! Forms to the ClickHouse port: whole, cut, with a file, and of another site's page, which a
//! browser sends with the login that it has saved.

use super::{AttackContext, answer};
use std::sync::Arc;
use tokio::time::sleep;

/// Form with a query and the value of its parameter.
pub(super) const PARAMETER_FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n\
    SELECT {x:String}\r\n--b\r\nContent-Disposition: form-data; name=\"param_x\"\r\n\r\na\r\n--b--\r\n";
const CUT_FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT 1\r\n";
const FILE_FORM: &str =
    "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\n1\r\n--b--\r\n";
/// Form and path with a statement that changes the database.
const WRITE_FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n\
    CREATE TABLE hostile_form (a Int8) ENGINE = Null\r\n--b--\r\n";
const WRITE_PATH: &str = "/?query=CREATE+TABLE+hostile_form+(a+Int8)+ENGINE+=+Null";

const MULTIPART: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=b");
const FIELDS: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Form as a browser sends it.
struct Form {
    name: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    /// True if it is of another site's page and changes the database, which must be refused.
    is_foreign: bool,
}

const fn own(
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Form {
    Form {
        name,
        path: "/",
        headers,
        body,
        is_foreign: false,
    }
}

const fn foreign(
    name: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Form {
    Form {
        name,
        path,
        headers,
        body,
        is_foreign: true,
    }
}

const FORMS: [Form; 7] = [
    own("whole", &[MULTIPART], PARAMETER_FORM),
    own("cut", &[MULTIPART], CUT_FORM),
    own("with a file", &[MULTIPART], FILE_FORM),
    own("of fields", &[FIELDS], "query=SELECT+1"),
    foreign(
        "of another page",
        "/",
        &[MULTIPART, ("Origin", "http://elsewhere.example")],
        WRITE_FORM,
    ),
    foreign(
        "of fields of another page",
        WRITE_PATH,
        &[FIELDS, ("Origin", "null")],
        " ",
    ),
    foreign(
        "of text of another page",
        WRITE_PATH,
        &[
            ("Content-Type", "text/plain"),
            ("Sec-Fetch-Site", "cross-site"),
        ],
        " ",
    ),
];

/// Sends the forms in turn; those of another page must change nothing.
pub(in crate::attack::hostile) async fn all(context: Arc<AttackContext>) {
    for form in FORMS.iter().cycle() {
        let sent = context.with_login("POST", form.path, form.headers, form.body.as_bytes());
        let outcome = context.analyst.send(&sent).await;
        let told = format!("{}: {}", form.name, answer(&outcome));
        context.findings.count("forms to ClickHouse", &told);
        if form.is_foreign && outcome.status() == 200 {
            let wrong = format!("a form {} changes the database", form.name);
            context.findings.wrong(wrong);
        }
        sleep(context.pause * 10).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::findings::Outcomes;
    use crate::attack::hostile::unproved;

    #[test]
    fn each_form_has_a_proof_of_its_own() {
        let missing = unproved(&Outcomes::new(), &["forms".to_owned()]);
        assert_eq!(missing.len(), FORMS.len());
        for form in &FORMS {
            let answer = format!("\"{}: ", form.name);
            assert!(
                missing.iter().any(|it| it.contains(&answer)),
                "{}",
                form.name
            );
        }
    }

    #[test]
    fn forms_of_other_pages_carry_their_origin() {
        for form in &FORMS {
            let is_told = form
                .headers
                .iter()
                .any(|(name, _)| ["Origin", "Sec-Fetch-Site"].contains(name));
            assert_eq!(is_told, form.is_foreign, "{}", form.name);
        }
    }
}
