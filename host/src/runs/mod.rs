//! (room runs)
