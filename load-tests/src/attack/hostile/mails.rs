//! Invitations by mail, up to the limits of mails and beyond.

use super::context::AttackContext;
use crate::attack::tenants::text;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

/// Invitations of a request: as many as one may have.
const BULK: u64 = 20;
/// Characters of the longest message and of the longest name.
const MESSAGE_CHARS: usize = 2_000;
const NAME_CHARS: usize = 30;
/// Address that is invited again and again.
const VICTIM: &str = "victim@example.com";

/// Sends invitations, again and in bulk. Beyond 500 an hour they are refused with 429.
pub(super) async fn all(context: Arc<AttackContext>, mut rng: StdRng) {
    loop {
        let number: u64 = rng.random();
        let hostile = &context.tenants.hostile;
        let findings = &context.findings;
        let one = invitation(&format!("m{number}@example.com"));
        let made = hostile.ask("POST", "invites/", &one).await;
        findings.note("invitations by mail", &made);
        if let Some(id) = text(&made.json(), "/id") {
            let path = format!("invites/{id}/resend/");
            let again = hostile.ask("POST", &path, &json!({})).await;
            findings.note("invitations that are mailed again", &again);
        }
        let bulk = (0..BULK).map(|at| invitation(&format!("m{number}-{at}@example.com")));
        let bulk = Value::Array(bulk.collect());
        let made = hostile.ask("POST", "invites/bulk/", &bulk).await;
        findings.note("invitations in bulk", &made);
        let to_one = hostile.ask("POST", "invites/", &invitation(VICTIM)).await;
        findings.note("invitations to one address", &to_one);
        sleep(context.pause * 20).await;
    }
}

/// An invitation as long as it may be, by mail.
fn invitation(address: &str) -> Value {
    json!({
        "target_email": address,
        "first_name": "n".repeat(NAME_CHARS),
        "message": "m".repeat(MESSAGE_CHARS),
        "send_email": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_goes_by_mail_with_the_longest_texts() {
        let invitation = invitation("a@example.com");
        assert_eq!(invitation["send_email"], true);
        let chars = |field: &str| invitation[field].as_str().map_or(0, str::len);
        assert_eq!((chars("first_name"), chars("message")), (30, 2_000));
    }
}
