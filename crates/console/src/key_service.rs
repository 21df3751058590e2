//! The verb `key-service`: started by processes that open a key store through a key service, so
//! that they need no HTTP and TLS client. It reads a request and writes the answer, and is not for
//! people.

use std::io::{self, IsTerminal};

use crate::error::ConsoleError;

/// Reads one request from standard input, asks the service, and writes its answer.
///
/// # Errors
/// `Usage` on a terminal; the service's error; `NotBuilt`.
pub fn run() -> Result<(), ConsoleError> {
    // Its output may be a secret.
    if io::stdout().is_terminal() {
        let message = "key-service is started by tdekit itself, through pipes".to_owned();
        return Err(ConsoleError::Usage(message));
    }
    answer()
}

#[cfg(feature = "key-services")]
fn answer() -> Result<(), ConsoleError> {
    tdekit_key_remote::serve(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(())
}

#[cfg(not(feature = "key-services"))]
fn answer() -> Result<(), ConsoleError> {
    Err(ConsoleError::NotBuilt { what: "a client of key services", feature: "key-services" })
}
