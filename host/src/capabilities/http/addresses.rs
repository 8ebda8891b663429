//! Which addresses stand for a host of the public internet. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses with one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    start: IpAddr,
    /// Bits of the start that count.
    bits: u8,
}

impl Network {
    /// Reads `ADDRESS` or `ADDRESS/BITS`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "the network {text:?}: write an address, such as \"10.1.2.3\", or a network, such as \"10.1.0.0/16\""
            )
        };
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let start: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if start.is_ipv4() { 32 } else { 128 };
        let plain =
            |bits: &str| bits.parse::<u8>().ok().filter(|n| (1..=most).contains(n) && n.to_string() == bits);
        let bits = bits.map_or(Some(most), plain).ok_or_else(bad)?;
        let network = Self { start, bits };
        if network.masked(start) != start {
            return Err(format!("the network {text:?} begins with {}: write that", network.masked(start)));
        }
        Ok(network)
    }

    /// True for one of its addresses.
    pub(super) fn contains(self, ip: IpAddr) -> bool {
        self.start.is_ipv4() == ip.is_ipv4() && self.masked(ip) == self.start
    }

    fn masked(self, ip: IpAddr) -> IpAddr {
        let mask = |width: u8| u128::MAX.checked_shl(u32::from(width - self.bits.min(width))).unwrap_or(0);
        match ip {
            // A mask of 32 bits is in the lower ones.
            IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & mask(32) as u32).into()),
            IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) & mask(128)).into()),
        }
    }
}

/// The IPv4 addresses that an IPv6 address carries, in every form in which it can carry one.
fn embedded(ip: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    let whole = match s {
        // Mapped, compatible, translated, and NAT64.
        [0, 0, 0, 0, 0, 0xffff | 0, a, b]
        | [0, 0, 0, 0, 0xffff, 0, a, b]
        | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => Some(v4(a, b)),
        // 6to4.
        [0x2002, a, b, ..] => Some(v4(a, b)),
        _ => None,
    };
    // ISATAP, below any prefix.
    let interface = match s {
        [.., 0 | 0x200, 0x5efe, a, b] => Some(v4(a, b)),
        _ => None,
    };
    whole.into_iter().chain(interface)
}

/// True for addresses that stand for one host of the public internet (the registries of special-purpose
/// addresses of IANA, RFC 6890 and its updates, say which do not).
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => {
            let mut carried = embedded(ip).peekable();
            let carries = carried.peek().is_some();
            carried.all(is_public_v4) && (carries || is_public_v6(ip))
        }
    }
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let global = s[0] & 0xe000 == 0x2000;
    // Protocol assignments (Teredo among them), documentation, AS112.
    let special = (s[0] == 0x2001 && (s[1] < 0x200 || s[1] == 0xdb8))
        || (s[0] == 0x3fff && s[1] < 0x1000)
        || s[..3] == [0x2620, 0x4f, 0x8000];
    global && !special
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(a == 0
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        // Between a provider and its customers.
        || (a == 100 && b & 0xc0 == 64)
        // Protocol assignments, old 6to4 relays, AS112, AMT, benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 31 && c == 196)
        || (a == 192 && b == 52 && c == 193)
        || (a == 192 && b == 175 && c == 48)
        || (a == 198 && b & 0xfe == 18)
        // Multicast, reserved, broadcast.
        || a >= 224)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn networks() {
        let network = |text: &str| Network::parse(text).unwrap();
        let ip = |text: &str| text.parse().unwrap();
        for (text, has, has_not) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.2/31", "10.1.2.3", "10.1.2.4"),
            ("128.0.0.0/1", "255.0.0.1", "127.0.0.1"),
            ("fd00::/8", "fdff::1", "fe00::"),
            ("fd00::1", "fd00::1", "fd00::2"),
            ("8000::/1", "ffff::", "7fff::"),
            ("10.0.0.0/8", "10.0.0.1", "::ffff:10.0.0.1"),
        ] {
            assert!(network(text).contains(ip(has)), "{text}");
            assert!(!network(text).contains(ip(has_not)), "{text}");
        }
        for text in [
            "",
            "10",
            "10.0.0.0/0",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "fd00::/129",
            "0.0.0.0/0",
            "a.example",
            "010.0.0.1",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_public_internet_is_public() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
            "2606:4700::5efe:101:101",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for reserved in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2001:10::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "3fff::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:a00:1",
            "2606:4700::200:5efe:7f00:1",
            "5f00::1",
            "2620:4f:8000::1",
            "2002:101:101::5efe:a00:1",
            "64:ff9b::",
            "::ffff:0.0.0.0",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        ] {
            assert!(!is_public(reserved.parse().unwrap()), "{reserved}");
        }
    }
}
