//! Networks that limits count clients by.

use std::net::{IpAddr, Ipv6Addr};

/// Address that a client's limits count for: its own in IPv4, and that of its /64 in IPv6, which
/// usually has one owner. By single addresses, one rented server would be 2^64 clients.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    // A dual-stack listener sees IPv4 clients under mapped addresses.
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_counts_for_its_64_and_an_ipv4_address_for_itself() {
        let table = [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::"),
            ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::"),
            ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ];
        for (address, network) in table {
            let counted = network_of(address.parse().unwrap());
            assert_eq!(counted, network.parse::<IpAddr>().unwrap(), "{address}");
        }
    }
}
