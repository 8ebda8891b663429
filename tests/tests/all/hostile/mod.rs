//! Plugins that mean harm (issue 6): each of `tests/hostile` attacks one thing, when it is loaded or when it is called.
//! Of each is checked what its caller sees, that the host has afterwards what it had before, and that others are
//! answered meanwhile.

mod call;
mod gauge;
mod hoard;
mod journal;
mod load;
mod made;
mod make;
mod special;
mod table;
