//! (room http)
