//! Notations of addresses that may not be dialled.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Private and special addresses of version 4: one or more of each network.
const INSIDE_V4: [&str; 22] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.254",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
];

/// Private and special addresses of version 6.
const INSIDE_V6: [&str; 16] = [
    "::",
    "::1",
    "100::1",
    "2001::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "64:ff9b:1::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
];

/// Names that all resolve to private addresses in these tests.
const NAMES: [&str; 22] = [
    "localhost",
    "LOCALHOST",
    "LocalHost.",
    "a.localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "metadata",
    "metadata.google.internal",
    "metadata.google.internal.",
    "instance-data.ec2.internal",
    "kubernetes.default.svc",
    "127.0.0.1.example",
    "127-0-0-1.example",
    "1.0.0.127.in-addr.arpa",
    "\u{24db}ocalhost",
    "loca\u{ad}lhost",
    "\u{ff4c}\u{ff4f}calhost",
    "localhost\u{3002}",
    "l%6fcalhost",
    "xn--nxasmq6b.example",
    "_tricky.example",
    "a",
];

/// Texts that are no host, or that not every parser takes for one.
const ODDITIES: [&str; 21] = [
    "",
    ".",
    "..",
    " ",
    "127.0.0.1 ",
    "127.0.0.1\0",
    "127.0.0.1%00.example",
    "127.0.0.1/",
    "127.0.0.1:80",
    "127.0.0.1#.example",
    "8.8.8.8@127.0.0.1",
    "[::1",
    "::1]",
    "[::1]:80",
    "[::1%25lo]",
    "fe80::1%lo",
    "[fe80::1%251]",
    "[::ffff:127.0.0.1.]",
    "127.0.0.1.1",
    "256.256.256.256",
    "0x100000000",
];

/// All of the above in every notation.
pub fn inside() -> Vec<String> {
    let v4 = INSIDE_V4.iter().flat_map(|text| {
        let address: Ipv4Addr = text.parse().unwrap();
        plain(address).into_iter().chain(within_v6(address))
    });
    let v6 = INSIDE_V6.iter().flat_map(|text| notations_v6(text));
    let others = NAMES.iter().chain(&ODDITIES).map(|text| (*text).to_owned());
    v4.chain(v6).chain(others).collect()
}

/// Notations of an address of version 4 that some parser takes for it.
pub fn plain(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let number = u32::from(address);
    let dotted = address.to_string();
    vec![
        dotted.clone(),
        format!("{dotted}."),
        format!("{number}"),
        format!("0x{number:x}"),
        format!("0X{number:08X}"),
        format!("0{number:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0{a:04o}.{b}.0x{c:02X}.{d}"),
        format!("{a}.{}", number & 0xff_ffff),
        format!("{a}.{b}.{}", number & 0xffff),
        format!("0x{a:x}.{}", number & 0xff_ffff),
        dotted.replace('.', "%2e"),
        dotted.replace('.', "\u{3002}"),
        dotted.replace('.', "\u{ff0e}"),
        full_width(&dotted),
        percent_encoded(&dotted),
    ]
}

/// Addresses of version 6 that embed one of version 4.
fn within_v6(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let all = [
        format!("::ffff:{address}"),
        format!("::FFFF:{high:X}:{low:X}"),
        format!("0:0:0:0:0:ffff:{high:04x}:{low:04x}"),
        format!("::{address}"),
        format!("::ffff:0:{address}"),
        format!("64:ff9b::{address}"),
        format!("64:ff9b:1::{address}"),
        format!("2002:{high:x}:{low:x}::1"),
        format!("2001:0:{high:x}:{low:x}:0:0:{:x}:{:x}", !high, !low),
        format!("fe80::5efe:{address}"),
    ];
    all.into_iter()
        .flat_map(|text| [format!("[{text}]"), text])
        .collect()
}

fn notations_v6(text: &str) -> Vec<String> {
    let address: Ipv6Addr = text.parse().unwrap();
    let groups = address.segments().map(|group| format!("{group:04X}"));
    vec![
        text.to_owned(),
        format!("[{text}]"),
        format!("[{}]", groups.join(":")),
        format!("[{text}%25lo]"),
        format!("{text}%lo"),
    ]
}

fn full_width(text: &str) -> String {
    let wide = |digit: char| char::from_u32(u32::from(digit) + 0xfee0);
    let wide = |digit| wide(digit).filter(|_| digit != '.').unwrap_or(digit);
    text.chars().map(wide).collect()
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
