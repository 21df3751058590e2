//! The crate's integration tests, one program: a module a subject.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod damage;
mod fixture;
mod round_trip;
