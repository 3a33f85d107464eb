//! Forms to the ClickHouse port: whole, cut, and with a file.

use super::{AttackContext, answer};
use std::sync::Arc;
use tokio::time::sleep;

/// Form with a query and the value of its parameter.
pub(super) const PARAMETER_FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n\
    SELECT {x:String}\r\n--b\r\nContent-Disposition: form-data; name=\"param_x\"\r\n\r\na\r\n--b--\r\n";
const CUT_FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT 1\r\n";
const FILE_FORM: &str =
    "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\n1\r\n--b--\r\n";

const MULTIPART: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=b");
const FIELDS: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Form as a browser sends it.
struct Form {
    name: &'static str,
    header: (&'static str, &'static str),
    body: &'static str,
}

const FORMS: [Form; 4] = [
    Form {
        name: "whole",
        header: MULTIPART,
        body: PARAMETER_FORM,
    },
    Form {
        name: "cut",
        header: MULTIPART,
        body: CUT_FORM,
    },
    Form {
        name: "with a file",
        header: MULTIPART,
        body: FILE_FORM,
    },
    Form {
        name: "of fields",
        header: FIELDS,
        body: "query=SELECT+1",
    },
];

/// Sends the forms in turn.
pub(in crate::attack::hostile) async fn all(context: Arc<AttackContext>) {
    for form in FORMS.iter().cycle() {
        let sent = context.with_login("POST", "/", &[form.header], form.body.as_bytes());
        let outcome = context.analyst.send(&sent).await;
        let told = format!("{}: {}", form.name, answer(&outcome));
        context.findings.count("forms to ClickHouse", &told);
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
}
