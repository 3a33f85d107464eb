//! Limits on mails with sign-in links, which anybody may ask for: by the network of the client,
//! and by the recipient, whether the address has an account or not. State is in memory: a restart
//! resets it.

use crate::request::window::{SlidingWindow, WindowLimit, WindowStatus};
use millrace_catalog::email_key;
use millrace_rows::network_of;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Mails that one network may ask for in an hour.
pub(crate) const OF_NETWORK_PER_HOUR_MAX: u32 = 10;
/// Mails to one address in an hour, whoever asks for them.
pub(crate) const TO_ADDRESS_PER_HOUR_MAX: u32 = 3;
const HOUR: Duration = Duration::from_secs(3_600);

/// Recent mails with sign-in links. Clones share them.
#[derive(Clone)]
pub(crate) struct SignInMails(Arc<Windows>);

struct Windows {
    of_network: SlidingWindow<IpAddr>,
    to_address: SlidingWindow<String>,
}

impl Default for SignInMails {
    fn default() -> Self {
        let hourly = |times| {
            [WindowLimit {
                times,
                window: HOUR,
            }]
        };
        Self(Arc::new(Windows {
            of_network: SlidingWindow::new(hourly(OF_NETWORK_PER_HOUR_MAX)),
            to_address: SlidingWindow::new(hourly(TO_ADDRESS_PER_HOUR_MAX)),
        }))
    }
}

impl fmt::Debug for SignInMails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInMails")
    }
}

impl SignInMails {
    /// Counts a mail.
    ///
    /// # Errors
    ///
    /// The network has asked for too many, or the address was to get too many.
    pub(crate) fn count(&self, from: IpAddr, email: &str) -> Result<(), WindowStatus> {
        let now = Instant::now();
        let Windows {
            of_network,
            to_address,
        } = &*self.0;
        of_network.count(&network_of(from), now)?;
        to_address.count(&email_key(email), now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn mails_are_limited_by_network_and_by_recipient() {
        let mails = SignInMails::default();
        let network = |number: u8| IpAddr::from([10, 0, 0, number]);
        for number in 1..=3 {
            mails.count(network(number), "Ann@Example.com").unwrap();
        }
        let refused = mails.count(network(4), "ann@example.com").unwrap_err();
        assert_eq!((refused.limit, refused.wait), (3, HOUR));
        for number in 0..OF_NETWORK_PER_HOUR_MAX {
            let email = format!("user{number}@example.com");
            mails.count(network(5), &email).unwrap();
        }
        let refused = mails.count(network(5), "bob@example.com").unwrap_err();
        assert_eq!((refused.limit, refused.wait), (10, HOUR));
        advance(HOUR).await;
        mails.count(network(4), "ann@example.com").unwrap();
        mails.count(network(5), "bob@example.com").unwrap();
    }
}
