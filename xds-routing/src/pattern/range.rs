//! Address ranges.

use core::net::IpAddr;

/// Address range: addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CidrRange {
    /// First address of the range.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub bits: u32,
}

/// Number of bits that precede an IPv4 address in an IPv6 address to which it is mapped.
const MAPPED_PREFIX: u32 = 96;

impl CidrRange {
    /// Creates the range of all addresses that have the first bits in common with `address`. At
    /// most as many bits count as an address has. A range of IPv4 addresses that are mapped to IPv6
    /// becomes a range of IPv4 addresses.
    #[must_use]
    pub fn new(address: IpAddr, bits: u32) -> Self {
        let (address, bits) = match address.to_canonical() {
            IpAddr::V4(mapped) if address.is_ipv6() && bits >= MAPPED_PREFIX => {
                (IpAddr::V4(mapped), bits - MAPPED_PREFIX)
            }
            _ => (address, bits),
        };
        let bits = bits.min(if address.is_ipv4() { 32 } else { 128 });
        Self { address: masked(address, bits), bits }
    }

    /// Whether an address is in the range. An IPv4 address that is mapped to IPv6 counts as an IPv4
    /// address. No range contains both IPv4 and IPv6 addresses.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.address
    }
}

/// Returns the first address of a range, so that equal ranges compare equal.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_contains_addresses_of_its_family_with_its_prefix() {
        for (range, bits, address, expected) in [
            ("10.1.2.3", 8, "10.9.9.9", true),
            ("10.1.2.3", 8, "11.1.2.3", false),
            ("10.1.2.3", 32, "10.1.2.3", true),
            ("10.1.2.3", 99, "10.1.2.4", false),
            ("0.0.0.0", 0, "255.255.255.255", true),
            ("0.0.0.0", 0, "::1", false),
            ("::", 0, "2001:db8::1", true),
            ("::", 0, "10.0.0.1", false),
            ("::", 0, "::ffff:10.0.0.1", false),
            ("2001:db8::", 32, "2001:db8:1::", true),
            ("2001:db8::", 32, "2001:db9::", false),
            ("10.0.0.0", 8, "::ffff:10.0.0.1", true),
            ("::ffff:10.0.0.0", 104, "10.0.0.1", true),
            ("::ffff:10.0.0.0", 104, "11.0.0.1", false),
            ("::ffff:0.0.0.0", 96, "::ffff:11.0.0.1", true),
        ] {
            let range = CidrRange::new(range.parse().expect("an address"), bits);
            let address = address.parse().expect("an address");
            assert_eq!(range.contains(address), expected, "{range:?}: {address}");
        }
    }
}
