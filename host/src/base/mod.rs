//! What every room may use: units, names, the clock, bounded files, files of keys and the error type. No logic of the host.

mod clock;
pub mod failpoints;
mod fault;
mod file;
mod ids;
mod keys;
mod neutral;
mod own;
mod piece;
mod pool;
mod quoted;
mod signers;
mod stamp;
mod tls;
mod units;

#[cfg(feature = "test-hooks")]
pub use clock::MovedClock;
pub use clock::{Clock, SystemClock, boottime_ms, boottime_ns};
pub(crate) use failpoints::failpoint;
pub use fault::{Fault, FaultCode};
pub use file::{private_folder, read_bounded, read_file, text_of};
pub use ids::{BootId, Digest, Principal, TaskId};
pub use keys::{KEY_BYTES, make_key, own_folder, read_keys, temp_name, write_new};
pub use neutral::{neutral_line, neutral_text};
pub use own::{is_own, listens};
pub use piece::{Blob, Piece};
pub use pool::{Class, Part, Pool, Taken, Turn};
pub use quoted::{quoted, quoted_key};
pub use signers::{Signed, Signers, Unsigned};
pub use stamp::{Stamp, stamp};
pub use tls::choose_tls;
pub use units::{ByteSize, Millis, UnixMillis};
