//! Waiting for a state, with a bound.

use std::time::{Duration, Instant};

/// Longest wait for anything: far above what is usual, on a machine that is busy with other tests.
pub const BOUND: Duration = Duration::from_secs(30);

/// Polls `probe` every 50 ms until it gives a value.
///
/// # Panics
/// If it gives none within [`BOUND`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(start.elapsed() < BOUND, "waited {BOUND:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
