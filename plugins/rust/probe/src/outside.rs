//! What a guest may reach for.

use std::{
    collections::BTreeMap,
    fs,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant, SystemTime},
};

use layby_plugin::prelude::*;
use serde_json::json;

/// Returns the environment, as a JSON object, and the arguments of the process.
#[tool]
pub(crate) fn env() -> Result<String> {
    let variables: BTreeMap<_, _> = std::env::vars().collect();
    let arguments: Vec<_> = std::env::args().collect();
    Ok(json!({ "env": variables, "args": arguments }).to_string())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Path {
    path: String,
}

/// Reads a file; what goes wrong is an error with the system's text.
#[tool]
pub(crate) fn read(args: Path) -> Result<String> {
    Ok(fs::read_to_string(args.path)?)
}

/// Lists a folder, sorted; a folder's name ends in `/`.
#[tool]
pub(crate) fn list(args: Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(args.path)? {
        let entry = entry?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            name.push('/');
        }
        names.push(name);
    }
    names.sort();
    Ok(json!(names).to_string())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Write {
    path: String,
    text: String,
}

/// Writes a file.
#[tool]
pub(crate) fn write(args: Write) -> Result<String> {
    fs::write(&args.path, &args.text)?;
    Ok(format!("wrote {} bytes", args.text.len()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Connect {
    /// An IPv4 address.
    address: std::net::Ipv4Addr,
    port: u16,
    /// A name to look up first; its addresses are not used.
    look_up: Option<String>,
}

/// Opens a TCP connection.
#[tool]
pub(crate) fn connect(args: Connect) -> Result<String> {
    if let Some(name) = &args.look_up {
        sockets::look_up(name)?;
    }
    sockets::connect(args.address, args.port)?;
    Ok(format!("connected to {}:{}", args.address, args.port))
}

#[cfg(target_family = "wasm")]
mod sockets {
    use std::net::Ipv4Addr;

    use wasip2::sockets::{
        instance_network::instance_network,
        ip_name_lookup::resolve_addresses,
        network::{IpAddressFamily, IpSocketAddress, Ipv4SocketAddress},
        tcp_create_socket::create_tcp_socket,
    };

    pub(super) fn look_up(name: &str) -> Result<(), String> {
        let stream = resolve_addresses(&instance_network(), name).map_err(|e| format!("look-up: {e:?}"))?;
        stream.subscribe().block();
        stream.resolve_next_address().map(drop).map_err(|e| format!("look-up: {e:?}"))
    }

    pub(super) fn connect(address: Ipv4Addr, port: u16) -> Result<(), String> {
        let socket = create_tcp_socket(IpAddressFamily::Ipv4).map_err(|e| format!("socket: {e:?}"))?;
        let [a, b, c, d] = address.octets();
        let address = IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address: (a, b, c, d) });
        socket.start_connect(&instance_network(), address).map_err(|e| format!("connect: {e:?}"))?;
        socket.subscribe().block();
        socket.finish_connect().map(drop).map_err(|e| format!("connect: {e:?}"))
    }
}

/// Outside the sandbox there is nothing to try.
#[cfg(not(target_family = "wasm"))]
mod sockets {
    pub(super) fn look_up(_name: &str) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn connect(_address: std::net::Ipv4Addr, _port: u16) -> Result<(), String> {
        Err("only in the sandbox".to_owned())
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Clock {
    /// Sleep between the two readings, in milliseconds.
    #[serde(default)]
    ms: u64,
}

/// Reads both clocks twice: `{"wall_ms":…,"wall_passed_ms":…,"monotonic_passed_ms":…}`.
#[tool]
pub(crate) fn clock(args: Clock) -> Result<String> {
    let (wall, monotonic) = (SystemTime::now(), Instant::now());
    std::thread::sleep(Duration::from_millis(args.ms));
    let (passed, mono) = (wall.elapsed(), monotonic.elapsed());
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let since = wall.duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(json!({
        "wall_ms": ms(since),
        "wall_passed_ms": passed.map(ms).ok(),
        "monotonic_passed_ms": ms(mono),
    })
    .to_string())
}

/// Returns two random numbers: `{"numbers":["…","…"]}`, in hexadecimal.
#[tool]
pub(crate) fn random() -> Result<String> {
    let number = |of: u64| format!("{:016x}", RandomState::new().hash_one(of));
    Ok(json!({ "numbers": [number(1), number(2)] }).to_string())
}
