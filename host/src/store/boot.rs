//! The name of this run of the operating system: leases on one machine are of one run.

use uuid::Uuid;

use super::StoreError;

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
