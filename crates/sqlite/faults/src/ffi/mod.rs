//! Everything that touches C; the only modules with unsafe code.
#![allow(unsafe_code)]

pub mod api;
mod crash_file;
pub mod crash_vfs;
pub mod db;
pub mod process;
pub mod raw_file;
pub mod tdekit;
