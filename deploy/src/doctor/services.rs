//! Services that the organization API uses: mail and a nameserver.

use super::Finding;
use crate::config::Config;
use millrace_admin::dns::Dns;

const MAIL: &str = "mail";
const NAMESERVER: &str = "nameserver";
/// Domain that is asked for. Any answer will do, that it has no such record, too.
const ASKED: &str = "example.com";

/// Opens a session with the SMTP server, if one is configured.
pub(super) async fn mail(config: &Config) -> Finding {
    let Some(settings) = &config.mail else {
        let found = "smtp_url is not set, so invitations are links that you pass on";
        return Finding::ok(MAIL, found);
    };
    match settings.try_server().await {
        Ok(()) => {
            let found = format!("{} takes a session", settings.server_address());
            Finding::ok(MAIL, found)
        }
        Err(error) => Finding::error(
            MAIL,
            error.to_string(),
            "check host, port, user, password and `tls` of smtp_url, such as smtp://user:password@host?tls=required",
        ),
    }
}

/// Asks the nameserver that verifies domains.
pub(super) async fn nameserver(config: &Config) -> Finding {
    let name = match config.dns_nameserver {
        Some(address) => address.to_string(),
        None => "the system's nameserver".to_owned(),
    };
    match Dns::new(config.dns_nameserver).proof(ASKED, "").await {
        Ok(_) => Finding::ok(NAMESERVER, format!("{name} answers")),
        Err(error) => Finding::warning(
            NAMESERVER,
            format!("{name}: {error}"),
            "domains of organizations cannot be verified; correct /etc/resolv.conf, or give a nameserver with \
             dns_nameserver, such as 192.0.2.53",
        ),
    }
}
