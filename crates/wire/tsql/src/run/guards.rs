//! TRY blocks, and the errors that their CATCH blocks handle.

use tdekit_wire_tds::Message;

/// The TRY and CATCH blocks that a session is in.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    tries: u32,
    /// The innermost last.
    caught: Vec<Message>,
}

impl Guards {
    /// Clears what an earlier request has left.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
        self.caught.clear();
    }

    /// Begins a TRY block, or what is guarded like one.
    pub(super) fn enter(&mut self) {
        self.tries += 1;
    }

    pub(super) fn leave(&mut self) {
        self.tries = self.tries.saturating_sub(1);
    }

    /// Returns true if a TRY block catches an error, which the client does not see then.
    pub(super) fn catch_errors(&self) -> bool {
        self.tries > 0
    }

    /// Begins a CATCH block, which handles this error.
    pub(super) fn handle(&mut self, error: Message) {
        self.caught.push(error);
    }

    pub(super) fn end_handling(&mut self) {
        self.caught.pop();
    }

    /// Returns the error that the innermost CATCH block handles.
    pub(super) fn handled(&self) -> Option<&Message> {
        self.caught.last()
    }
}
