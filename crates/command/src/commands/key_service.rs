//! `tdekit key-service`: started by processes that open a key store by a key service, so that they
//! need no client of HTTP and TLS. It reads a request and writes the answer, and is not for people.

use std::io::{self, IsTerminal};

use crate::error::CommandError;

/// Reads one request from standard input, asks the service, and writes its answer.
pub(crate) fn run() -> Result<(), CommandError> {
    // What it writes may be a secret.
    if io::stdout().is_terminal() {
        let message = "key-service is started by tdekit itself, through pipes".to_owned();
        return Err(CommandError::Usage(message));
    }
    answer()
}

#[cfg(feature = "key-services")]
fn answer() -> Result<(), CommandError> {
    tdekit_key_remote::serve(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(())
}

#[cfg(not(feature = "key-services"))]
fn answer() -> Result<(), CommandError> {
    super::absent::refuse("a client of key services", "key-services")
}
