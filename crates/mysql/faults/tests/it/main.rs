//! Integration tests of the component in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod groups;
mod killed;
mod library;
mod life;
mod verbs;
