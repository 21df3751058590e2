//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]

mod common;

mod known_answers;
mod sealing_properties;
mod wycheproof;
