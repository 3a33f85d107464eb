//! Properties: for any answer of a resolver and any notation of a host, exactly the global unicast
//! addresses are dialled.

use crate::forms;
use crate::resolver::Scripted;
use ipnet::IpNet;
use millrace_dial::Guard;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::runtime::Builder;

/// Networks that are not globally reachable by IANA's registries, multicast and unassigned ones
/// included.
const NOT_GLOBAL: &str = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16
    172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15
    198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    ::/3 2001::/23 2001:db8::/32 2002::/16 3fff::/20 4000::/2 8000::/1";
/// Addresses of an answer that are tried at most.
const TRIED_MAX: usize = 8;

/// Returns true if an address is global; a translator's address counts as the one that it
/// translates to.
fn is_global(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V6(address) => match address.segments() {
            [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                IpAddr::V4(((u32::from(high) << 16) | u32::from(low)).into())
            }
            _ => IpAddr::V6(address),
        },
        v4 => v4,
    };
    let networks = NOT_GLOBAL
        .split_whitespace()
        .map(|text| text.parse().unwrap());
    !networks
        .into_iter()
        .any(|network: IpNet| network.contains(&address))
}

/// Any address, mostly near the edges of special networks.
fn any_address() -> impl Strategy<Value = IpAddr> {
    let networks: Vec<IpNet> = NOT_GLOBAL
        .split_whitespace()
        .map(|text| text.parse().unwrap())
        .collect();
    let edge = |network: IpNet, offset: i8| match (network.network(), network.broadcast()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let from = if offset < 0 { first } else { last };
            IpAddr::V4(u32::from(from).wrapping_add_signed(offset.into()).into())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let from = if offset < 0 { first } else { last };
            IpAddr::V6(u128::from(from).wrapping_add_signed(offset.into()).into())
        }
        mixed => unreachable!("{mixed:?}"),
    };
    prop_oneof![
        (prop::sample::select(networks), -2..2_i8)
            .prop_map(move |(network, offset)| edge(network, offset)),
        any::<Ipv4Addr>().prop_map(IpAddr::V4),
        any::<Ipv6Addr>().prop_map(IpAddr::V6),
        any::<Ipv4Addr>().prop_map(|address| IpAddr::V6(address.to_ipv6_mapped())),
        any::<u32>().prop_map(|low| IpAddr::V6((0x64_ff9b_u128 << 96 | u128::from(low)).into())),
        any::<u128>().prop_map(|bits| IpAddr::V6((bits >> 3 | 1 << 125).into())),
    ]
}

thread_local! {
    /// Guard of the thread, as creating one reads the system's certificates; each test has its own
    /// thread.
    static GUARD: (Arc<Scripted>, Guard) = {
        let resolver = Scripted::new(&[]);
        let guard = Guard::with_resolver(false, resolver.clone()).unwrap();
        (resolver, guard)
    };
}

/// Addresses of a host that may be dialled if the resolver gives this answer for every name.
fn dialled(host: &str, answer: Vec<IpAddr>) -> Vec<IpAddr> {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    GUARD.with(|(resolver, guard)| {
        resolver.say(answer);
        runtime.block_on(guard.addresses(host)).unwrap_or_default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn exactly_the_global_addresses_of_an_answer_are_dialled(
        answer in prop::collection::vec(any_address(), 0..12),
    ) {
        let global = answer.iter().copied().filter(|address| is_global(*address));
        let expected: Vec<_> = global.take(TRIED_MAX).collect();
        prop_assert_eq!(dialled("any.example", answer), expected);
    }

    #[test]
    fn an_address_is_dialled_in_any_notation_only_if_it_is_global(
        address in any::<Ipv4Addr>(),
        nearby in any_address(),
    ) {
        let near = match nearby {
            IpAddr::V4(nearby) => forms::plain(nearby),
            IpAddr::V6(nearby) => vec![nearby.to_string(), format!("[{nearby}]")],
        };
        for host in forms::plain(address).into_iter().chain(near) {
            for address in dialled(&host, Vec::new()) {
                prop_assert!(is_global(address), "{} leads to {}", host, address);
            }
        }
        let plain = dialled(&address.to_string(), Vec::new());
        prop_assert_eq!(plain.len(), usize::from(is_global(address.into())));
    }

    #[test]
    fn no_text_leads_to_a_private_address(host in r"[0-9a-fxX.:%\[\]@/\\# -]{0,40}|\PC{0,20}") {
        let inside = ["127.0.0.1", "169.254.169.254", "fd00:ec2::254"];
        let inside = inside.map(|text| text.parse().unwrap());
        for address in dialled(&host, inside.to_vec()) {
            prop_assert!(is_global(address), "{} leads to {}", host, address);
        }
    }
}
