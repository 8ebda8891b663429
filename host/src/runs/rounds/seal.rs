//! `requestState`: names a run and a round, and can be made by this host alone.

use std::time::Duration;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::Digest;

/// Seals and opens. Every process on the same store has the same key.
pub(in crate::runs) struct Seal(RequestStateCodec);

/// What a state names. Readable by whoever has the state, so nothing else is in it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::runs) struct Named {
    /// Its row.
    pub(in crate::runs) run: Uuid,
    pub(in crate::runs) round: u32,
}

impl Seal {
    /// The key's name: a later one gets another, and both are known for as long as states live.
    const KEY: &str = "1";

    /// # Errors
    /// A key that is too short.
    pub(in crate::runs) fn new(key: &[u8]) -> Result<Self, String> {
        RequestStateCodec::new_with_keyring(Self::KEY, [(Self::KEY, key.to_vec())])
            .map(Self)
            .map_err(|e| e.to_string())
    }

    /// A state for the request that `mark` names (its principal included), good for `life`.
    ///
    /// # Errors
    /// What cannot be written.
    pub(in crate::runs) fn close(
        &self,
        named: &Named,
        mark: &Digest,
        life: Duration,
    ) -> Result<String, String> {
        let options = SealOptions::new().associated_data(&mark.0).ttl(life);
        self.0.seal_json_with(named, &options).map_err(|e| e.to_string())
    }

    /// What `state` names, where this host made it for that request and its time is not over.
    ///
    /// # Errors
    /// Why not; for the log alone, since it would help whoever forges one.
    pub(in crate::runs) fn open(&self, state: &str, mark: &Digest) -> Result<Named, String> {
        self.0.open_json_with(state, &mark.0).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_state_opens_for_its_own_request_and_time_alone() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let (mine, other) = (Digest::of(b"mine"), Digest::of(b"other"));
        let named = Named { run: Uuid::new_v4(), round: 3 };
        let state = seal.close(&named, &mine, Duration::from_secs(60)).unwrap();
        assert_eq!(seal.open(&state, &mine).unwrap(), named);
        assert_eq!(Seal::new(&[7; 32]).unwrap().open(&state, &mine).unwrap(), named, "another process");
        assert!(seal.open(&state, &other).is_err());
        assert!(seal.open(&format!("{state}-TAMPERED"), &mine).is_err());
        assert!(Seal::new(&[8; 32]).unwrap().open(&state, &mine).is_err());
        for n in 0..state.len() {
            let mut bytes = state.clone().into_bytes();
            bytes[n] = if bytes[n] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            if changed != state {
                assert!(seal.open(&changed, &mine).is_err(), "{n}");
            }
        }
        let over = seal.close(&named, &mine, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(seal.open(&over, &mine).is_err(), "expired");
        assert!(Seal::new(&[7; 8]).is_err());
    }
}
