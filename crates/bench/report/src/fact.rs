//! Circumstances of experiments and of sides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The circumstance that transactions follow a schedule: the same number a second on every side.
pub const RATE: &str = "rate_per_s";

/// The circumstance of a side that its files are in a directory of their own, whose way to encrypt
/// uses CPU of other processes.
pub const DIRECTORY: &str = "directory";

/// Circumstances by name.
pub type Facts = BTreeMap<String, Fact>;

/// A circumstance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact {
    /// True or false.
    Flag(bool),
    /// An amount, in the unit at the end of its name.
    Number(f64),
    /// Words.
    Text(String),
}

macro_rules! facts {
    ($($kind:ty: $fact:expr),* $(,)?) => { $(impl From<$kind> for Fact {
        fn from(known: $kind) -> Self {
            $fact(known)
        }
    })* };
}

facts! {
    bool: Self::Flag,
    u32: |number| Self::Number(f64::from(number)),
    u64: |number| Self::Number(float(number)),
    f64: Self::Number,
    &str: |words: &str| Self::Text(words.to_owned()),
    String: Self::Text,
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds and bytes stay far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}
