//! Every call that a component can make of what is linked (`link.rs`), and what becomes of it in a replay. One place: a
//! call that is not here pins the runs of whoever imports it.

use wasmtime::{
    Engine,
    component::{Component, types::ComponentItem},
};

/// What becomes of a call in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Its answer follows from the run's header and the calls before it: asked again.
    Derived,
    /// Recorded, or read again and compared.
    Read,
    /// Recorded, and a run can park in it.
    Wait,
    /// May be done again after a crash.
    IdempotentEffect,
    /// Never done twice, unless a grant or the request's method says that it may.
    UnsafeEffect,
    /// Answers nothing that depends on the world, and is not repeated.
    Silent,
    /// Always refused.
    Denied,
    /// Cannot be replayed: whoever imports it cannot be resumed.
    Pins,
}

use Class::{Denied, Derived, IdempotentEffect, Read, Silent, UnsafeEffect, Wait};

type Calls = &'static [(Class, &'static [&'static str])];

/// By interface, without versions: the calls of every version that is linked.
const TABLE: &[(&str, Calls)] = &[
    (
        "layby:plugin/call",
        &[
            (Silent, &["report-progress", "check-cancelled", "log", "changed"]),
            (Read, &["supports"]),
            (Wait, &["request-input"]),
        ],
    ),
    ("layby:plugin/types", &[]),
    ("wasi:cli/environment", &[(Derived, &["get-environment", "get-arguments", "initial-cwd"])]),
    ("wasi:cli/exit", &[(Derived, &["exit", "exit-with-code"])]),
    ("wasi:cli/stdin", &[(Derived, &["get-stdin"])]),
    ("wasi:cli/stdout", &[(Derived, &["get-stdout"])]),
    ("wasi:cli/stderr", &[(Derived, &["get-stderr"])]),
    ("wasi:cli/terminal-input", &[]),
    ("wasi:cli/terminal-output", &[]),
    ("wasi:cli/terminal-stdin", &[(Derived, &["get-terminal-stdin"])]),
    ("wasi:cli/terminal-stdout", &[(Derived, &["get-terminal-stdout"])]),
    ("wasi:cli/terminal-stderr", &[(Derived, &["get-terminal-stderr"])]),
    (
        "wasi:clocks/monotonic-clock",
        &[(Read, &["now", "subscribe-duration"]), (Derived, &["resolution", "subscribe-instant"])],
    ),
    ("wasi:clocks/wall-clock", &[(Read, &["now"]), (Derived, &["resolution"])]),
    ("wasi:config/store", &[(Derived, &["get", "get-all"])]),
    ("wasi:config/runtime", &[(Derived, &["get", "get-all"])]),
    ("wasi:filesystem/preopens", &[(Derived, &["get-directories"])]),
    (
        "wasi:filesystem/types",
        &[
            (
                Derived,
                &[
                    "[method]descriptor.read-via-stream",
                    "[method]descriptor.write-via-stream",
                    "[method]descriptor.append-via-stream",
                    "[method]descriptor.get-flags",
                    "[method]descriptor.get-type",
                    "[method]directory-entry-stream.read-directory-entry",
                    "filesystem-error-code",
                ],
            ),
            (
                Read,
                &[
                    "[method]descriptor.read",
                    "[method]descriptor.read-directory",
                    "[method]descriptor.stat",
                    "[method]descriptor.stat-at",
                    "[method]descriptor.readlink-at",
                    "[method]descriptor.is-same-object",
                    "[method]descriptor.metadata-hash",
                    "[method]descriptor.metadata-hash-at",
                ],
            ),
            (
                IdempotentEffect,
                &["[method]descriptor.advise", "[method]descriptor.sync", "[method]descriptor.sync-data"],
            ),
            (
                UnsafeEffect,
                &[
                    "[method]descriptor.set-size",
                    "[method]descriptor.set-times",
                    "[method]descriptor.write",
                    "[method]descriptor.create-directory-at",
                    "[method]descriptor.set-times-at",
                    "[method]descriptor.link-at",
                    // A read, where it makes and empties nothing.
                    "[method]descriptor.open-at",
                    "[method]descriptor.remove-directory-at",
                    "[method]descriptor.rename-at",
                    "[method]descriptor.symlink-at",
                    "[method]descriptor.unlink-file-at",
                ],
            ),
        ],
    ),
    ("wasi:http/outgoing-handler", &[(UnsafeEffect, &["handle"])]),
    (
        "wasi:http/types",
        &[(
            Derived,
            &[
                "[constructor]fields",
                "[static]fields.from-list",
                "[method]fields.get",
                "[method]fields.has",
                "[method]fields.set",
                "[method]fields.delete",
                "[method]fields.append",
                "[method]fields.entries",
                "[method]fields.clone",
                "[method]incoming-request.method",
                "[method]incoming-request.path-with-query",
                "[method]incoming-request.scheme",
                "[method]incoming-request.authority",
                "[method]incoming-request.headers",
                "[method]incoming-request.consume",
                "[constructor]outgoing-request",
                "[method]outgoing-request.body",
                "[method]outgoing-request.method",
                "[method]outgoing-request.set-method",
                "[method]outgoing-request.path-with-query",
                "[method]outgoing-request.set-path-with-query",
                "[method]outgoing-request.scheme",
                "[method]outgoing-request.set-scheme",
                "[method]outgoing-request.authority",
                "[method]outgoing-request.set-authority",
                "[method]outgoing-request.headers",
                "[constructor]request-options",
                "[method]request-options.connect-timeout",
                "[method]request-options.set-connect-timeout",
                "[method]request-options.first-byte-timeout",
                "[method]request-options.set-first-byte-timeout",
                "[method]request-options.between-bytes-timeout",
                "[method]request-options.set-between-bytes-timeout",
                "[static]response-outparam.set",
                "[method]incoming-response.status",
                "[method]incoming-response.headers",
                "[method]incoming-response.consume",
                "[method]incoming-body.stream",
                "[static]incoming-body.finish",
                "[method]future-trailers.subscribe",
                // What is there was polled for before, which is recorded.
                "[method]future-trailers.get",
                "[constructor]outgoing-response",
                "[method]outgoing-response.status-code",
                "[method]outgoing-response.set-status-code",
                "[method]outgoing-response.headers",
                "[method]outgoing-response.body",
                "[method]outgoing-body.write",
                "[static]outgoing-body.finish",
                "[method]future-incoming-response.subscribe",
                "[method]future-incoming-response.get",
                "http-error-code",
            ],
        )],
    ),
    ("wasi:io/error", &[(Derived, &["[method]error.to-debug-string"])]),
    ("wasi:io/poll", &[(Read, &["[method]pollable.ready"]), (Wait, &["[method]pollable.block", "poll"])]),
    (
        "wasi:io/streams",
        &[
            // Of a file; what others have was recorded as a whole.
            (
                Read,
                &[
                    "[method]input-stream.read",
                    "[method]input-stream.blocking-read",
                    "[method]input-stream.skip",
                    "[method]input-stream.blocking-skip",
                ],
            ),
            (
                Derived,
                &[
                    "[method]input-stream.subscribe",
                    "[method]output-stream.check-write",
                    "[method]output-stream.flush",
                    "[method]output-stream.blocking-flush",
                    "[method]output-stream.subscribe",
                ],
            ),
            // To a file; to a request they are part of it, and to standard output silent.
            (
                UnsafeEffect,
                &[
                    "[method]output-stream.write",
                    "[method]output-stream.blocking-write-and-flush",
                    "[method]output-stream.write-zeroes",
                    "[method]output-stream.blocking-write-zeroes-and-flush",
                    "[method]output-stream.splice",
                    "[method]output-stream.blocking-splice",
                ],
            ),
        ],
    ),
    ("wasi:logging/logging", &[(Silent, &["log"])]),
    ("wasi:random/insecure-seed", &[(Derived, &["insecure-seed"])]),
    ("wasi:random/insecure", &[(Derived, &["get-insecure-random-bytes", "get-insecure-random-u64"])]),
    ("wasi:random/random", &[(Derived, &["get-random-bytes", "get-random-u64"])]),
    ("wasi:sockets/network", &[]),
    ("wasi:sockets/instance-network", &[(Derived, &["instance-network"])]),
    (
        "wasi:sockets/ip-name-lookup",
        &[(
            Denied,
            &[
                "resolve-addresses",
                "[method]resolve-address-stream.resolve-next-address",
                "[method]resolve-address-stream.subscribe",
            ],
        )],
    ),
    ("wasi:sockets/tcp-create-socket", &[(Denied, &["create-tcp-socket"])]),
    // There is never a socket.
    (
        "wasi:sockets/tcp",
        &[(
            Denied,
            &[
                "[method]tcp-socket.start-bind",
                "[method]tcp-socket.finish-bind",
                "[method]tcp-socket.start-connect",
                "[method]tcp-socket.finish-connect",
                "[method]tcp-socket.start-listen",
                "[method]tcp-socket.finish-listen",
                "[method]tcp-socket.accept",
                "[method]tcp-socket.local-address",
                "[method]tcp-socket.remote-address",
                "[method]tcp-socket.is-listening",
                "[method]tcp-socket.address-family",
                "[method]tcp-socket.set-listen-backlog-size",
                "[method]tcp-socket.keep-alive-enabled",
                "[method]tcp-socket.set-keep-alive-enabled",
                "[method]tcp-socket.keep-alive-idle-time",
                "[method]tcp-socket.set-keep-alive-idle-time",
                "[method]tcp-socket.keep-alive-interval",
                "[method]tcp-socket.set-keep-alive-interval",
                "[method]tcp-socket.keep-alive-count",
                "[method]tcp-socket.set-keep-alive-count",
                "[method]tcp-socket.hop-limit",
                "[method]tcp-socket.set-hop-limit",
                "[method]tcp-socket.receive-buffer-size",
                "[method]tcp-socket.set-receive-buffer-size",
                "[method]tcp-socket.send-buffer-size",
                "[method]tcp-socket.set-send-buffer-size",
                "[method]tcp-socket.subscribe",
                "[method]tcp-socket.shutdown",
            ],
        )],
    ),
    ("wasi:sockets/udp-create-socket", &[(Denied, &["create-udp-socket"])]),
    (
        "wasi:sockets/udp",
        &[(
            Denied,
            &[
                "[method]udp-socket.start-bind",
                "[method]udp-socket.finish-bind",
                "[method]udp-socket.stream",
                "[method]udp-socket.local-address",
                "[method]udp-socket.remote-address",
                "[method]udp-socket.address-family",
                "[method]udp-socket.unicast-hop-limit",
                "[method]udp-socket.set-unicast-hop-limit",
                "[method]udp-socket.receive-buffer-size",
                "[method]udp-socket.set-receive-buffer-size",
                "[method]udp-socket.send-buffer-size",
                "[method]udp-socket.set-send-buffer-size",
                "[method]udp-socket.subscribe",
                "[method]incoming-datagram-stream.receive",
                "[method]incoming-datagram-stream.subscribe",
                "[method]outgoing-datagram-stream.check-send",
                "[method]outgoing-datagram-stream.send",
                "[method]outgoing-datagram-stream.subscribe",
            ],
        )],
    ),
];

/// The class of a call; one that has none is of the class that fits every call.
pub(super) fn class(interface: &str, call: &str) -> Class {
    let interface = interface.split('@').next().unwrap_or(interface);
    let calls = TABLE.iter().find(|(name, _)| *name == interface).map_or(&[][..], |(_, calls)| *calls);
    calls.iter().find(|(_, names)| names.contains(&call)).map_or(Class::Pins, |(class, _)| *class)
}

/// The first call that `component` imports and that cannot be replayed.
pub(super) fn pins(component: &Component, engine: &Engine) -> Option<String> {
    let kind = component.component_type();
    kind.imports(engine).find_map(|(interface, import)| match import.ty {
        ComponentItem::ComponentInstance(instance) => instance.exports(engine).find_map(|(call, export)| {
            let is_call = matches!(export.ty, ComponentItem::ComponentFunc(_));
            (is_call && class(interface, call) == Class::Pins).then(|| format!("{interface}#{call}"))
        }),
        ComponentItem::ComponentFunc(_) => Some(interface.to_owned()),
        _ => None,
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
