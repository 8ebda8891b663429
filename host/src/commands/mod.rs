//! (room commands)
