//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod object_common;

mod crash;
mod damage;
mod differential;
mod keys;
mod live;
mod object_backup;
mod object_kept;
mod object_s3;
mod round_trip;
