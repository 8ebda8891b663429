//! The clock and the name of this run of the operating system: leases on one machine go by them,
//! because the wall clock may jump and a monotonic clock stops while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use super::StoreError;

/// Milliseconds since the operating system started, time asleep included (`CLOCK_BOOTTIME`).
pub fn boottime_ms() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000_000
}

/// The same in nanoseconds.
pub fn boottime_ns() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// The kernel's random name for this run of the operating system.
///
/// # Errors
/// `/proc/sys/kernel/random/boot_id` cannot be read: leases could not be told from those before a reboot.
pub fn os_boot_id() -> Result<Uuid, StoreError> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|e| StoreError::Other(format!("the system's boot id cannot be read: {e}")))?;
    Uuid::try_parse(text.trim())
        .map_err(|e| StoreError::Other(format!("the system's boot id is not a UUID: {e}")))
}
