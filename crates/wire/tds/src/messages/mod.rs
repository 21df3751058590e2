//! The table of messages: SQL Server's numbers, classes, states, extents and texts.
//!
//! It is here, at the seam, because three packages report errors to clients and do not know each
//! other: the interpreter ([`Error`]), the server around it ([`ServerError`]) and the endpoint
//! ([`SessionError`]). [`Told`] has the messages that are not errors.

mod collation;
mod cursor;
mod defined;
mod error;
mod insert;
mod permission;
mod schema;
mod server;
mod session;
mod statement;
mod told;
mod trigger;
mod xml;

pub use collation::CollationError;
pub use cursor::CursorError;
pub use defined::DefinedError;
pub use insert::InsertError;
pub use permission::PermissionError;
pub use schema::SchemaError;
pub use server::ServerError;
pub use session::SessionError;
pub use statement::{Error, Rule};
pub use told::{THROWN, Told, USER, raised, system};
pub use trigger::TriggerError;
pub use xml::XmlError;

use crate::Message;

/// The extent of a message: the unit that it ends, with all smaller units. In SQL Server,
/// conversions from text end the transaction, names that cannot be bound end the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// Nothing: information only.
    Nothing,
    /// The statement.
    Statement,
    /// The batch.
    Batch,
    /// The transaction.
    Transaction,
    /// The connection.
    Connection,
}

impl Ends {
    /// Returns the extent of a message that was caught, or that a host returned. It is that of its
    /// number; for a number that is not in the table, that of its class.
    fn of(message: &Message) -> Self {
        // Users assign their numbers freely.
        let known = |table: &[(i32, Self)]| {
            let row = table.iter().find(|(number, _)| *number == message.number);
            row.filter(|_| message.number < USER).map(|(_, ends)| *ends)
        };
        let tables = [
            statement::ENDS,
            server::ENDS,
            defined::ENDS,
            trigger::ENDS,
            cursor::ENDS,
            xml::ENDS,
            collation::ENDS,
            insert::ENDS,
        ];
        tables.into_iter().find_map(known).unwrap_or(match message.class {
            20.. => Self::Connection,
            17.. => Self::Transaction,
            _ => Self::Statement,
        })
    }
}

/// Returns an error of another part for the interpreter, which adds the line.
fn raise((number, class, state): (i32, u8, u8), error: &impl std::fmt::Display) -> Error {
    let message = Message { line: 0, ..Message::new(number, class, state, error.to_string()) };
    Error::Raised(Box::new(message))
}

/// A part of the table: an enum with a variant for each row, its codes and extents. `...` and a
/// name add a variant for messages from elsewhere.
macro_rules! table {
    ($(#[$head:meta])* $table:ident;
        $($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* } = $number:literal,
        $class:literal, $state:literal, $ends:ident, $text:literal;)*
        $(... $(#[$other_doc:meta])* $other:ident;)?) => {
        $(#[$head])*
        #[derive(Debug, Clone, PartialEq, thiserror::Error)]
        #[non_exhaustive]
        pub enum $table {
            $(
                $(#[$doc])*
                #[doc = concat!("Message ", stringify!($number), ".")]
                #[error($text)]
                #[allow(missing_docs)]
                $name { $($field: $ty),* },
            )*
            $(
                $(#[$other_doc])*
                #[error("{}", .0.text)]
                $other(Box<$crate::Message>),
            )?
        }

        impl $table {
            /// Returns SQL Server's number, class and state.
            #[must_use]
            pub fn code(&self) -> (i32, u8, u8) {
                match self {
                    $($table::$name { .. } => ($number, $class, $state),)*
                    $($table::$other(message) => (message.number, message.class, message.state),)?
                }
            }

            /// Returns the extent of the error.
            #[must_use]
            pub fn ends(&self) -> $crate::messages::Ends {
                match self {
                    $($table::$name { .. } => $crate::messages::Ends::$ends,)*
                    $($table::$other(message) => $crate::messages::Ends::of(message),)?
                }
            }
        }

        /// The extent of each number of this part.
        #[allow(dead_code)]
        pub(super) const ENDS: &[(i32, $crate::messages::Ends)] =
            &[$(($number, $crate::messages::Ends::$ends)),*];
    };
}
use table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_what_its_number_ends() {
        let of = |number, class| Ends::of(&Message::new(number, class, 1, ""));
        assert_eq!(
            (of(1205, 13), of(102, 15), of(824, 24)),
            (Ends::Transaction, Ends::Batch, Ends::Connection)
        );
        // For a user's number, the class decides.
        assert_eq!((of(USER, 16), of(USER, 18)), (Ends::Statement, Ends::Transaction));
        assert_eq!((of(USER, 20), of(49_999, 16)), (Ends::Connection, Ends::Statement));
        // An error from a host has the extent of its row.
        assert_eq!(Error::from(ServerError::Aborted {}).ends(), ServerError::Aborted {}.ends());
    }

    #[test]
    fn what_only_tells_is_no_error() {
        for (number, ends) in told::ENDS {
            assert_eq!(*ends, Ends::Nothing, "{number}");
        }
        assert!(!Told::Valid { position: 1 }.message().is_error());
        assert!(SessionError::ReadOnlyCursor {}.message().is_error());
    }
}
