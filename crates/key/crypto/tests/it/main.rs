//! The crate's integration tests, one program: a module a subject.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]

mod common;

mod known_answers;
mod sealing_properties;
mod wycheproof;
