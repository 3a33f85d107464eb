//! Networks of the server's own user, and users by where they may come from.
//!
//! To the engine every client of the gate is this machine. Over HTTP it learns the address of the
//! client, but takes all addresses of this machine for loopback, which a proxy has, too; the native
//! protocol has no place for one. So the gate holds those to their networks who have some.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::EngineOptions;
use crate::names::{EXPORT, QUERY, VIEWS};

/// User of the engine's own session. A client that names no user is this one.
const SESSION: &str = "default";

/// Names and networks of one engine.
#[derive(Debug)]
pub(super) struct Access {
    own_user: String,
    networks: Vec<IpNet>,
}

// === impl Access ===

impl Access {
    pub(super) fn new(options: &EngineOptions) -> Self {
        Self {
            own_user: options.user.clone(),
            networks: options.networks.clone(),
        }
    }

    /// Returns true for users whom only the program logs in as. Their statements have bounds of
    /// their own, or need none.
    pub(super) fn is_of_program(&self, user: &str) -> bool {
        user == self.own_user || user == QUERY || user == EXPORT
    }

    /// Returns true if a user may come from an address. Others than these may from anywhere. The
    /// native protocol has names with a blank in front for other ways to log in, which no client of
    /// ours needs.
    pub(super) fn permits(&self, user: &str, address: IpAddr) -> bool {
        match user {
            user if user == self.own_user => self.is_own(address),
            SESSION => is_loopback(address),
            VIEWS => false,
            user => !user.starts_with(' '),
        }
    }

    /// Returns true for an address whose connections have places apart from those of strangers. A
    /// network of all addresses tells nobody apart.
    pub(super) fn has_own_places(&self, address: IpAddr) -> bool {
        let mut some = self.networks.iter().filter(|net| net.prefix_len() > 0);
        is_loopback(address) || some.any(|network| contains(network, address))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        let mut networks = self.networks.iter();
        is_loopback(address) || networks.any(|network| contains(network, address))
    }
}

/// Returns true for the user of the engine's own session, which is the only one that it may have.
pub(super) fn is_of_session(user: &str) -> bool {
    user == SESSION
}

/// Returns true for addresses of this machine alone.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns true if a network has an address. One of IPv6 may have those of IPv4, as mapped ones.
fn contains(network: &IpNet, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let mapped = match address {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        v6 => v6,
    };
    network.contains(&address) || network.contains(&mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(networks: &[&str]) -> Access {
        let networks = networks.iter().map(|network| network.parse().unwrap());
        Access::new(&EngineOptions {
            networks: networks.collect(),
            ..EngineOptions::for_tests()
        })
    }

    #[test]
    fn the_own_user_comes_from_its_networks_and_others_from_anywhere() {
        const TEN: &[&str] = &["10.0.0.0/8", "2001:db8::/32"];
        let table: [(&[&str], &str, &str, bool); 18] = [
            (TEN, "millrace", "127.0.0.1", true),
            (TEN, "millrace", "::1", true),
            (TEN, "millrace", "::ffff:127.0.0.2", true),
            (TEN, "millrace", "10.1.2.3", true),
            (TEN, "millrace", "::ffff:10.1.2.3", true),
            (TEN, "millrace", "2001:db8::1", true),
            (TEN, "millrace", "192.168.0.1", false),
            (TEN, "millrace", "2001:db9::1", false),
            (&[], "millrace", "10.1.2.3", false),
            (&["::/0"], "millrace", "10.1.2.3", true),
            (&["0.0.0.0/0"], "millrace", "10.1.2.3", true),
            (TEN, "reader", "192.168.0.1", true),
            (TEN, "project", "2001:db9::1", true),
            (TEN, "default", "127.0.0.1", true),
            (TEN, "default", "10.1.2.3", false),
            (TEN, "project_views", "127.0.0.1", false),
            (TEN, " INTERSERVER SECRET ", "127.0.0.1", false),
            (TEN, " SSH KEY AUTHENTICATION millrace", "10.1.2.3", false),
        ];
        for (networks, user, address, expected) in table {
            let permitted = access(networks).permits(user, address.parse().unwrap());
            assert_eq!(permitted, expected, "{networks:?} {user} {address}");
        }
    }

    #[test]
    fn a_network_of_all_addresses_has_no_places_of_its_own() {
        let table: [(&[&str], &str, bool); 5] = [
            (&["10.0.0.0/8"], "10.1.2.3", true),
            (&["10.0.0.0/8"], "192.168.0.1", false),
            (&["::/0", "0.0.0.0/0"], "192.168.0.1", false),
            (&["::/0"], "127.0.0.1", true),
            (&[], "::1", true),
        ];
        for (networks, address, expected) in table {
            let own = access(networks).has_own_places(address.parse().unwrap());
            assert_eq!(own, expected, "{networks:?} {address}");
        }
    }
}
