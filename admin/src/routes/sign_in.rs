//! `/api/sign_in/`, `/api/sign_out/`: the beginning and the end of a person's session.

use super::sessions::SessionBody;
use super::users::UserBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::mail::SignInMail;
use crate::operation::{Limit, Operation};
use crate::request::session_cookie::SessionCookie;
use crate::response::WithCookie;
use crate::schema::Nothing;
use crate::sign_in_page;
use http::HeaderMap;
use http::header::USER_AGENT;
use millrace_catalog::ChangeError;
use millrace_organizations::{OpenedSession, SIGN_IN_LINK_LIFETIME, Sessions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const IN: &str = "/api/sign_in/";
const MAIL: &str = "/api/sign_in/mail/";
const OUT: &str = "/api/sign_out/";
const NO_LINK: &str = "The link is unknown, was used, or has expired.";
const NO_MAIL: &str =
    "The server sends no mails. Its operator makes a link: millrace sign-in-link.";
const INSECURE: &str = "The address is neither HTTPS nor of a loopback interface.";

/// Operations of signing in and out.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::action(IN, sign_in)
            .about("Sign in by a link")
            .note(
                "Sets the cookie of a session, which ends after 12 hours without use and after 30 \
                 days at the latest. `millrace sign-in-link`, the first start and \
                 `/api/sign_in/mail/` make links, which work once, for 15 minutes.",
            )
            .open()
            .never_replayed()
            .limited_by(&[Limit::Sessions])
            .fails(400, "insecure_address", INSECURE)
            .fails(404, "not_found", NO_LINK),
        Operation::action(MAIL, mail_link)
            .about("Ask for a sign-in link by mail")
            .note("The answer is the same whether the address has an account or not.")
            .open()
            .never_replayed()
            .limited_by(&[
                Limit::SignInMails,
                Limit::SignInMailsToAddress,
                Limit::SignInLinks,
            ])
            .fails(400, "mail_not_configured", NO_MAIL),
        Operation::action(OUT, sign_out)
            .about("Sign out")
            .note("Ends the session of the request, if there is one, and removes its cookie.")
            .open()
            .never_replayed(),
    ]
}

/// Link to sign in by.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SignIn")]
struct LinkToken {
    /// Token of the link: what follows the `#` of its address.
    #[schemars(length(min = 1, max = 128))]
    token: String,
}

/// A session that was opened just now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedIn")]
struct SignedInBody {
    /// Person who signed in.
    user: UserBody,
    /// Session that begins.
    session: SessionBody,
}

impl From<OpenedSession> for SignedInBody {
    fn from(opened: OpenedSession) -> Self {
        Self {
            user: opened.user.into(),
            session: opened.record.into(),
        }
    }
}

/// Address of an account.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SignInMail")]
struct MailAddress {
    /// Address that the link is mailed to, if it has an account.
    #[schemars(length(min = 1, max = 254), extend("format" = "email"))]
    email: String,
}

/// A link that is on its way, if the address has an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignInMailSent")]
struct MailedBody {
    /// Minutes for which the link works.
    link_minutes: u64,
}

/// End of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedOut")]
struct SignedOutBody {
    /// True if a session ended; false if the request had none.
    session_ended: bool,
}

async fn sign_in(context: Context, link: LinkToken) -> Result<WithCookie<SignedInBody>, ApiError> {
    let cookie = cookie_of(&context)?;
    let user_agent = user_agent(&context.request.headers);
    let opened = context.sessions().sign_in(&link.token, user_agent).await?;
    Ok(WithCookie {
        cookie: Some(cookie.set(opened.token.expose())?),
        body: opened.into(),
    })
}

/// Takes the same steps before its answer whether the address has an account or not; whether there
/// is one is looked up in the background.
async fn mail_link(context: Context, address: MailAddress) -> Result<MailedBody, ApiError> {
    let services = &context.services;
    // Not the address of the request: whoever sends one could lead the link elsewhere.
    let (Some(outbox), Some(base_url)) = (&services.outbox, &services.config.public_url) else {
        return Err(ApiError::invalid("mail_not_configured", None, NO_MAIL));
    };
    let counted = services
        .sign_in_mails
        .count(context.request.address, &address.email);
    counted.map_err(|refused| ApiError::throttled(refused.into()))?;
    let slot = outbox.reserve_sign_in().ok_or_else(ApiError::unavailable)?;
    let link_minutes = SIGN_IN_LINK_LIFETIME.as_secs() / 60;
    let page = format!("{base_url}{}", sign_in_page::PATH);
    let catalog = context.catalog().clone();
    slot.send(async move {
        let made = Sessions::new(&catalog).create_link_to_mail(&address.email);
        let made = made.await?.map(|link| SignInMail {
            link: format!("{page}#{}", link.token.expose()),
            to: link.user.email,
            minutes: link_minutes,
        });
        Ok::<_, ChangeError>(made)
    });
    Ok(MailedBody { link_minutes })
}

async fn sign_out(context: Context, _: Nothing) -> Result<WithCookie<SignedOutBody>, ApiError> {
    let caller = context.caller.as_deref();
    let session_id = caller.and_then(|caller| caller.credential.session_id());
    if let (Some(caller), Some(id)) = (caller, session_id) {
        context.sessions().end_own(caller, id).await?;
    }
    let cookie = SessionCookie::at(&context.request.base_url);
    Ok(WithCookie {
        cookie: cookie.map(SessionCookie::remove).transpose()?,
        body: SignedOutBody {
            session_ended: session_id.is_some(),
        },
    })
}

/// Cookie for a new session at the address of the request.
///
/// # Errors
///
/// 400 where it would cross a network in the clear.
pub(super) fn cookie_of(context: &Context) -> Result<SessionCookie, ApiError> {
    let cookie = SessionCookie::at(&context.request.base_url);
    cookie.ok_or_else(|| {
        let detail = "Sign in over HTTPS, or at a loopback address such as http://localhost:8010. \
                      Behind a proxy with TLS, set admin_public_url, or trusted_proxies.";
        ApiError::invalid("insecure_address", None, detail)
    })
}

/// Name that the browser gives itself; empty without one.
pub(super) fn user_agent(headers: &HeaderMap) -> &str {
    let value = headers.get(USER_AGENT);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
