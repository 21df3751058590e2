//! What a client sees of an [`Error`], and what the error ends.

use super::{Ends, Error};
use crate::Message;

impl From<crate::memory::OutOfMemory> for Error {
    fn from(_: crate::memory::OutOfMemory) -> Error {
        // it is reported here, and explains no other error
        crate::memory::was_refused();
        Error::OutOfMemory {}
    }
}

impl Error {
    /// Returns the message that a client sees.
    #[must_use]
    pub fn message(&self, line: u32, procedure: &str) -> Message {
        if let Error::Raised(message) = self {
            let mut message = message.as_ref().clone();
            if message.line == 0 {
                message.line = line;
                procedure.clone_into(&mut message.procedure);
            }
            return message;
        }
        let (number, class, state) = self.code();
        let mut message = Message::new(number, class, state, self.to_string());
        message.line = line;
        procedure.clone_into(&mut message.procedure);
        message
    }

    /// Returns true if the surrounding transaction is rolled back, even without XACT_ABORT. A text
    /// that cannot be bound has done nothing: earlier changes of the transaction stay. Clients that
    /// ask for a description and get an error rely on that.
    #[must_use]
    pub fn undoes(&self) -> bool {
        self.ends() >= Ends::Transaction
    }

    /// Returns the error for syntax that is not supported, by its name.
    #[must_use]
    pub fn unsupported(what: impl Into<String>) -> Error {
        Error::NotSupported { what: what.into() }
    }

    /// Returns the error for a feature that is not supported, by its name.
    #[must_use]
    pub fn feature(what: impl Into<String>) -> Error {
        Error::NotSupportedFeature { what: what.into() }
    }
}
