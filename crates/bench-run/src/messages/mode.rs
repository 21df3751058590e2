//! How a connection is encrypted.

/// The kinds that are held against one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessagesMode {
    /// The login at most.
    Off,
    /// All, TLS within PRELOGIN (TDS 7.4).
    On,
    /// All, TLS before everything (TDS 8.0).
    Strict,
    /// None: SQLite is called in the bench's own process, on the same database.
    Direct,
}

impl MessagesMode {
    /// Name shown, and that of the option's value.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
            Self::Direct => "direct",
        }
    }
}
