//! Crashes where they hurt most: a process is killed before and after each write and each effect (every failpoint of
//! the host), at random instants under load, and again and again by one task.

mod paused;
mod plans;
mod points;
mod poison;
mod random;
mod world;
