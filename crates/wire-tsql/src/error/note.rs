//! Messages that are not our errors: notes of statements, and errors that a text raises itself.

use tdekit_wire_tds::Message;

/// The first number that is a user's.
pub(crate) const USER: i32 = 50_000;
/// The class of errors that THROW raises.
pub(crate) const THROWN: u8 = 16;

/// PRINT.
pub(crate) fn printed(line: u32, text: String) -> Message {
    Message { line, ..Message::new(0, 0, 1, text) }
}

/// USE.
pub(crate) fn database(name: &str) -> Message {
    Message::new(5701, 0, 2, format!("Changed database context to '{name}'."))
}

/// DBCC without NO_INFOMSGS.
pub(crate) fn dbcc_completed() -> Message {
    let text = "DBCC execution completed. If DBCC printed error messages, contact your system \
        administrator.";
    Message::new(2528, 0, 1, text)
}

/// The error that a text raises by RAISERROR and THROW: its number, class and state.
pub(crate) fn raised(
    line: u32,
    procedure: &str,
    (number, class, state): (i32, u8, u8),
    text: String,
) -> Message {
    let procedure = procedure.to_owned();
    Message { line, procedure, ..Message::new(number, class, state, text) }
}

/// Messages of sys.messages that RAISERROR gives by their numbers alone: those of our own
/// procedures.
pub(crate) fn system(number: i64) -> Option<(i32, &'static str)> {
    match number {
        15250 => Some((
            15250,
            "The database name component of the object qualifier must be the name of the current \
             database.",
        )),
        15252 => Some((15252, "The primary or foreign key table name must be given.")),
        _ => None,
    }
}
