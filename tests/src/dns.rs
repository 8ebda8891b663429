//! A name server that says what a test wants, and remembers what it was asked.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{net::UdpSocket, task::JoinHandle};

const A: u16 = 1;
const AAAA: u16 = 28;
/// Bytes of what goes before the question.
const HEADER: usize = 12;

#[derive(Default)]
struct Zone {
    /// What a name has, look-up by look-up; the last stays.
    names: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Vec<(String, u16)>,
}

/// The server; it ends with this value. Give [`Dns::address`] to a host as `LAYBYTEST_DNS`.
pub struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    serving: JoinHandle<()>,
}

impl Dns {
    /// The variable by which a host built with test hooks is told of it.
    pub const VARIABLE: &str = "LAYBYTEST_DNS";

    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Without one.
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let zone = Arc::<Mutex<Zone>>::default();
        let shared = zone.clone();
        let serving = tokio::spawn(async move {
            let mut bytes = [0; 512];
            while let Ok((n, from)) = socket.recv_from(&mut bytes).await {
                if let Some(answer) = answer(&shared, &bytes[..n]) {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        Self { address, zone, serving }
    }

    /// `name` has these addresses, look-up by look-up; the last of them stay.
    ///
    /// # Panics
    /// If one is no address.
    pub fn say(&self, name: &str, lookups: &[&[&str]]) {
        let parse = |all: &&[&str]| all.iter().map(|ip| ip.parse().expect("an address")).collect();
        self.lock().names.insert(name.to_lowercase(), lookups.iter().map(parse).collect());
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// How often IPv4 addresses of `name` were asked for.
    pub fn lookups(&self, name: &str) -> usize {
        self.lock().asked.iter().filter(|(asked, kind)| asked == name && *kind == A).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Zone> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// RFC 1035: a header, the question again, and an answer for each address.
fn answer(zone: &Mutex<Zone>, question: &[u8]) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (HEADER, Vec::new());
    while let Some(len) = question.get(at).copied().map(usize::from).filter(|len| *len > 0) {
        labels.push(String::from_utf8_lossy(question.get(at + 1..=at + len)?).to_lowercase());
        at += 1 + len;
    }
    let kind = u16::from_be_bytes([*question.get(at + 1)?, *question.get(at + 2)?]);
    let name = labels.join(".");
    let mut zone = zone.lock().unwrap_or_else(PoisonError::into_inner);
    let before = zone.asked.iter().filter(|asked| **asked == (name.clone(), kind)).count();
    zone.asked.push((name.clone(), kind));
    let all = zone.names.get(&name).and_then(|lookups| lookups.get(before).or(lookups.last()));
    let data: Vec<Vec<u8>> = all
        .into_iter()
        .flatten()
        .filter_map(|ip| match ip {
            IpAddr::V4(ip) if kind == A => Some(ip.octets().to_vec()),
            IpAddr::V6(ip) if kind == AAAA => Some(ip.octets().to_vec()),
            _ => None,
        })
        .collect();
    let mut bytes = question.get(..at + 5)?.to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80]);
    bytes[6..HEADER].copy_from_slice(&[0, u8::try_from(data.len()).ok()?, 0, 0, 0, 0]);
    for data in data {
        // The question's name, one address, for no time at all.
        bytes.extend([0xc0, HEADER as u8]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        bytes.extend(data);
    }
    Some(bytes)
}
