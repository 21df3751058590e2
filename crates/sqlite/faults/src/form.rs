//! Extent of the suites: sampled in minutes, more of it, or everything through a night.

use std::env;

/// The form of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// `make test`: every kind of fault, sampled.
    Short,
    /// `TDEKIT_FULL`, which `make test-all` sets: minutes per suite.
    Full,
    /// `TDEKIT_EXHAUSTIVE`: hours.
    Exhaustive,
}

impl Form {
    /// Returns the form that the environment asks for.
    #[must_use]
    pub fn of_environment() -> Self {
        let set = |name| env::var_os(name).is_some_and(|value| value != "0");
        match () {
            () if set("TDEKIT_EXHAUSTIVE") => Self::Exhaustive,
            () if set("TDEKIT_FULL") => Self::Full,
            () => Self::Short,
        }
    }
}

/// Selects one of three values, by the form that the environment asks for.
#[must_use]
pub fn by_form<T>(short: T, full: T, exhaustive: T) -> T {
    match Form::of_environment() {
        Form::Short => short,
        Form::Full => full,
        Form::Exhaustive => exhaustive,
    }
}

/// Returns true if `TDEKIT_EXHAUSTIVE` asks for the long form of every suite.
#[must_use]
pub fn exhaustive() -> bool {
    Form::of_environment() == Form::Exhaustive
}
