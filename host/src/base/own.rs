//! The sockets on which this process itself listens: no plugin may reach them, whatever it is granted.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Mutex, PoisonError},
};

static PORTS: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// From now on `address` is this process's own. It stays so to the end: a port that is given up is soon another
/// listener's of this process, or nobody's.
pub fn listens(address: SocketAddr) {
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !ports.contains(&address.port()) {
        ports.push(address.port());
    }
}

/// True where a connection to `address` would reach this process. A port counts on every address of this machine,
/// because a listener may have all of them.
pub fn is_own(address: SocketAddr) -> bool {
    let ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    ports.contains(&address.port()) && is_local(address.ip())
}

/// Only an address of this machine can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_port_is_own_on_every_address_of_this_machine() {
        // No other test's, because it cannot be listened on.
        listens("192.0.2.1:9".parse().unwrap());
        for own in ["127.0.0.1:9", "127.9.9.9:9", "0.0.0.0:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["127.0.0.1:10", "192.0.2.77:9", "[2001:db8::1]:9"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }
}
