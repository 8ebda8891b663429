//! `wasi:sockets`: raw sockets and name look-up. Grant: none; they are linked because some languages' runtimes import them.
//! Class: denied. Records: nothing, because the answer is always the same.
//!
//! Wasmtime's own denies them too, and is beneath; here the operator is told what was tried.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::sockets::{
    ip_name_lookup::ResolveAddressStream,
    network::{ErrorCode, IpAddressFamily, Network},
    tcp::TcpSocket,
    udp::UdpSocket,
};

use super::State;

/// What there is in their place.
const INSTEAD: &str = "no grant allows that: servers are reached by wasi:http, with lines such as { allow = \"GET https://HOST/*\" } in grants.http";

/// Puts the three ways in over wasmtime's.
pub(super) fn shadow(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut tcp = linker.instance("wasi:sockets/tcp-create-socket@0.2.12")?;
    tcp.func_wrap("create-tcp-socket", |mut store, (_,): (IpAddressFamily,)| {
        store.data_mut().deny(&format!("a TCP socket; {INSTEAD}"));
        Ok((Err::<Resource<TcpSocket>, _>(ErrorCode::AccessDenied),))
    })?;
    let mut udp = linker.instance("wasi:sockets/udp-create-socket@0.2.12")?;
    udp.func_wrap("create-udp-socket", |mut store, (_,): (IpAddressFamily,)| {
        store.data_mut().deny(&format!("a UDP socket; {INSTEAD}"));
        Ok((Err::<Resource<UdpSocket>, _>(ErrorCode::AccessDenied),))
    })?;
    let mut names = linker.instance("wasi:sockets/ip-name-lookup@0.2.12")?;
    names.func_wrap("resolve-addresses", |mut store, (_, name): (Resource<Network>, String)| {
        // The longest name there is.
        let name = &name[..name.floor_char_boundary(253)];
        store.data_mut().deny(&format!("the look-up of the name {name:?}; {INSTEAD}"));
        Ok((Err::<Resource<ResolveAddressStream>, _>(ErrorCode::PermanentResolverFailure),))
    })
}
