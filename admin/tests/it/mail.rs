//! Mails through a real SMTP server.

use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::{
    Invitation, MailSettings, MemberJoined, Outbox, ReserveError, TooManyNotices,
};
use serde_json::json;
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

const ACME: Uuid = Uuid::from_u128(1);

fn invitation() -> Invitation {
    Invitation {
        to: "bob@example.org".to_owned(),
        first_name: "Bób".to_owned(),
        organization: "Acme".to_owned(),
        inviter: "Ann \"A\" Ünal".to_owned(),
        inviter_email: "ann@example.com".to_owned(),
        message: Some("See <you> there".to_owned()),
        link: "https://millrace.example/signup/t0ken".to_owned(),
        expires_at: "2026-01-04 09:30 UTC".to_owned(),
    }
}

fn invite(outbox: &Outbox, invitation: Invitation) {
    outbox.reserve(ACME, 1).unwrap().invite(invitation);
}

async fn delivered_by(outbox: &Outbox) {
    outbox.drain(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn an_invitation_arrives_with_link_expiry_and_reply_to() {
    let mut smtp = SmtpServer::plain().await;
    invite(&Outbox::new(smtp.settings("", "")), invitation());
    let mail = smtp.server.next().await;
    assert_eq!(mail["from"], "millrace@example.com");
    assert_eq!(mail["to"], json!(["bob@example.org"]));
    assert_eq!(
        (&mail["encrypted"], &mail["defects"]),
        (&json!(false), &json!([]))
    );
    let expected = [
        ("From", "Millrace <millrace@example.com>"),
        ("To", "Bób <bob@example.org>"),
        ("Reply-To", "\"Ann \\\"A\\\" Ünal\" <ann@example.com>"),
        ("Subject", "Ann \"A\" Ünal invited you to Acme"),
        ("Auto-Submitted", "auto-generated"),
    ];
    for (name, value) in expected {
        assert_eq!(mail["headers"][name], value, "{name}");
    }
    for name in ["Date", "Message-ID"] {
        assert!(mail["headers"][name].is_string(), "{name}");
    }
    for part in ["text", "html"] {
        let text = mail[part].as_str().unwrap();
        for needle in [
            "Hello Bób,",
            "Acme",
            "/signup/t0ken",
            "2026-01-04 09:30 UTC",
        ] {
            assert!(text.contains(needle), "{needle} is not in {part}: {text}");
        }
    }
    assert!(mail["text"].as_str().unwrap().contains("See <you> there"));
    assert!(
        mail["html"]
            .as_str()
            .unwrap()
            .contains("See &#60;you&#62; there")
    );
}

#[tokio::test]
async fn starttls_is_used_and_the_user_authenticated() {
    let mut smtp = SmtpServer::starttls(&["--user", "ann@example.com", "p w"]).await;
    for query in ["?tls=required", "?tls=opportunistic"] {
        let settings = smtp.settings("ann%40example.com:p%20w@", query);
        invite(&Outbox::new(settings), invitation());
        let mail = smtp.server.next().await;
        let how = (&mail["encrypted"], &mail["user"]);
        assert_eq!(how, (&json!(true), &json!("ann@example.com")), "{query}");
    }
}

#[tokio::test]
async fn smtps_is_encrypted_from_the_first_byte() {
    let mut smtp = SmtpServer::starttls(&["--implicit", "--user", "ann", "pw"]).await;
    let settings = smtp.settings_of("smtps", "ann:pw@", "");
    invite(&Outbox::new(settings), invitation());
    let mail = smtp.server.next().await;
    let how = (&mail["encrypted"], &mail["user"]);
    assert_eq!(how, (&json!(true), &json!("ann")));
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_with_an_untrusted_certificate() {
    let mut smtp = SmtpServer::starttls(&[]).await;
    let url = format!("smtp://127.0.0.1:{}?tls=required", smtp.server.port);
    let stranger = MailSettings::new(&url, "a@example.com", None).unwrap();
    let outbox = Outbox::new(stranger.with_retry_pause(Duration::ZERO));
    invite(
        &outbox,
        Invitation {
            to: "lost@example.org".to_owned(),
            ..invitation()
        },
    );
    delivered_by(&outbox).await;
    let trusted = Outbox::new(smtp.settings("", "?tls=required"));
    invite(&trusted, invitation());
    assert_eq!(smtp.server.next().await["to"], json!(["bob@example.org"]));
}

#[tokio::test]
async fn nothing_is_sent_in_the_clear_where_tls_is_required() {
    let mut smtp = SmtpServer::plain().await;
    let required = Outbox::new(smtp.settings("", "?tls=required"));
    invite(
        &required,
        Invitation {
            to: "lost@example.org".to_owned(),
            ..invitation()
        },
    );
    delivered_by(&required).await;
    invite(&Outbox::new(smtp.settings("", "")), invitation());
    assert_eq!(smtp.server.next().await["to"], json!(["bob@example.org"]));
}

#[tokio::test]
async fn temporary_failures_are_retried_and_permanent_ones_are_not() {
    // Code and number of the server's refusals; whether the mail arrives afterwards.
    for (code, times, arrives) in [("451", "2", true), ("550", "1", false)] {
        let mut smtp = SmtpServer::start(&["--refuse", code, times], false).await;
        let outbox = Outbox::new(smtp.settings("", ""));
        invite(
            &outbox,
            Invitation {
                to: "first@example.org".to_owned(),
                ..invitation()
            },
        );
        delivered_by(&outbox).await;
        let after = Outbox::new(smtp.settings("", ""));
        invite(&after, invitation());
        let first = if arrives {
            "first@example.org"
        } else {
            "bob@example.org"
        };
        assert_eq!(smtp.server.next().await["to"], json!([first]), "{code}");
    }
}

/// Sends a notice, with one recipient on each page.
fn tell(outbox: &Outbox, recipients: &'static [&str]) {
    let joined = MemberJoined {
        member: "Bob".to_owned(),
        email: "bob@example.org".to_owned(),
        organization: "Acme".to_owned(),
    };
    let slots = outbox.reserve_notice(ACME).unwrap();
    let mut pages = (1..).zip(recipients);
    slots.announce(joined, move |after| {
        let page = pages.next().map(|(id, to)| (id, (*to).to_owned()));
        assert!(page.as_ref().is_none_or(|(id, _)| after + 1 == *id));
        ready(Ok::<_, Infallible>(page.into_iter().collect()))
    });
}

#[tokio::test]
async fn a_notice_is_mailed_to_each_member_alone() {
    let mut smtp = SmtpServer::plain().await;
    let outbox = Outbox::new(smtp.settings("", ""));
    tell(
        &outbox,
        &["ann@example.com", "no address", "cy@example.com"],
    );
    for to in ["ann@example.com", "cy@example.com"] {
        let mail = smtp.server.next().await;
        assert_eq!(mail["to"], json!([to]));
        assert_eq!(mail["headers"]["Subject"], "Bob joined Acme");
        assert!(mail["text"].as_str().unwrap().contains("bob@example.org"));
    }
}

#[tokio::test]
async fn a_failed_notice_does_not_delay_the_other_members() {
    let mut smtp = SmtpServer::start(&["--refuse", "451", "1"], false).await;
    let settings = smtp.settings("", "");
    let outbox = Outbox::new(settings.with_retry_pause(Duration::from_secs(3_600)));
    tell(&outbox, &["grey@example.com", "cy@example.com"]);
    assert_eq!(smtp.server.next().await["to"], json!(["cy@example.com"]));
    delivered_by(&outbox).await;
}

#[tokio::test]
async fn notices_have_their_own_limits_apart_from_invitations() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let notices: Vec<_> = (0..10)
        .map(|_| outbox.reserve_notice(ACME).unwrap())
        .collect();
    let refused = outbox.reserve_notice(ACME).map(drop);
    assert_eq!(refused, Err(TooManyNotices));
    let others: Vec<_> = (0..90)
        .map(|_| outbox.reserve_notice(Uuid::new_v4()).unwrap())
        .collect();
    let refused = outbox.reserve_notice(Uuid::new_v4()).map(drop);
    assert_eq!(refused, Err(TooManyNotices), "of all organizations");
    assert!(outbox.reserve(ACME, 100).is_ok());
    drop((notices, others));
    assert!(outbox.reserve_notice(ACME).is_ok());
}

#[tokio::test]
async fn four_conversations_are_held_at_a_time_and_two_of_them_for_notices() {
    type Send = fn(&Outbox);
    let table: [(Send, usize); 2] = [
        (|outbox| invite(outbox, invitation()), 4),
        (|outbox| tell(outbox, &["ann@example.com"]), 2),
    ];
    for (send, held) in table {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let settings = MailSettings::new(&url, "a@b.example", None).unwrap();
        let outbox = Outbox::new(settings.with_retry_pause(Duration::from_secs(3_600)));
        (0..6).for_each(|_| send(&outbox));
        let mut conversations = Vec::new();
        for _ in 0..held {
            conversations.push(listener.accept().await.unwrap());
        }
        let soon = Duration::from_millis(200);
        let more = timeout(soon, listener.accept()).await;
        assert!(more.is_err(), "more than {held}");
        // One that ends makes way for another.
        conversations.pop();
        let next = timeout(Duration::from_secs(60), listener.accept()).await;
        assert!(next.is_ok(), "no more than {held} in all");
    }
}

#[tokio::test]
async fn a_silent_server_fills_the_outbox_and_drain_ends_after_its_grace() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let outbox = Outbox::new(smtp.settings("", ""));
    for organization in 1..=10 {
        let mut slots = outbox.reserve(Uuid::from_u128(organization), 100).unwrap();
        for _ in 0..100 {
            slots.invite(invitation());
        }
    }
    let other = Uuid::from_u128(11);
    assert_eq!(outbox.reserve(other, 1).unwrap_err(), ReserveError::Full);
    outbox.drain(Duration::ZERO).await;
}

/// The mail library bounds replies whose lines end; our own limit bounds lines that do not.
#[tokio::test]
async fn an_endless_server_reply_is_cut_off() {
    // Long lines, as the library parses the whole reply again after each line.
    let line = format!("220-{}\r\n", "and more ".repeat(100));
    for piece in [line.repeat(10), "220 and more".repeat(1_000)] {
        assert_cut_off(&piece).await;
    }
}

/// Sends a piece repeatedly until the client closes the connection.
async fn assert_cut_off(piece: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let settings = MailSettings::new(&url, "a@b.example", None).unwrap();
    let outbox = Outbox::new(settings.with_retry_pause(Duration::from_millis(1)));
    invite(&outbox, invitation());
    // The first try and five more.
    for _ in 0..6 {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut sent = 0;
        while stream.write_all(piece.as_bytes()).await.is_ok() {
            sent += piece.len();
            assert!(sent < 64 << 20, "{sent} bytes were taken");
        }
    }
    delivered_by(&outbox).await;
}

#[tokio::test]
async fn unused_capacity_is_given_back() {
    let outbox = Outbox::new(MailSettings::new("smtp://127.0.0.1:9", "a@b.example", None).unwrap());
    let all = || (1..=10).map(|id| outbox.reserve(Uuid::from_u128(id), 100));
    let slots: Vec<_> = all().collect::<Result<_, _>>().unwrap();
    let other = Uuid::from_u128(11);
    assert_eq!(outbox.reserve(other, 1).unwrap_err(), ReserveError::Full);
    let more = outbox.reserve(ACME, 1);
    assert!(matches!(more, Err(ReserveError::Quota { .. })), "{more:?}");
    drop(slots);
    assert!(all().all(|slots| slots.is_ok()));
}

#[tokio::test]
async fn a_mail_that_waits_for_a_retry_frees_its_slot() {
    let smtp = SmtpServer::start(&["--refuse", "451", "1"], false).await;
    let settings = smtp.settings("", "");
    let outbox = Outbox::new(settings.with_retry_pause(Duration::from_secs(3_600)));
    let sizes = [100, 100, 100, 100, 100, 100, 100, 100, 100, 99];
    let held = sizes.map(|mails| outbox.reserve(Uuid::new_v4(), mails).unwrap());
    let mut slots = outbox.reserve(ACME, 1).unwrap();
    assert_eq!(outbox.reserve(ACME, 1).unwrap_err(), ReserveError::Full);
    slots.invite(invitation());
    while outbox.reserve(Uuid::new_v4(), 1).is_err() {
        tokio::task::yield_now().await;
    }
    let share = outbox.reserve(ACME, 100);
    assert!(
        matches!(share, Err(ReserveError::Quota { .. })),
        "it counts for its organization: {share:?}"
    );
    drop(held);
}
