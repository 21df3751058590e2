//! Errors of the endpoint program, with hints on how to fix them.

use tdekit_console::{ConsoleError, Failure};
use tdekit_key_crypto::Kind;
use tdekit_wire_endpoint::EndpointError;

/// Reason why the program stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// An error common to all programs.
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// An error of the endpoint.
    #[error("{}", with_cause(.0))]
    Endpoint(#[from] EndpointError),
}

impl ServeError {
    /// Returns the error for arguments that do not go together.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Console(ConsoleError::Usage(text.into()))
    }
}

/// Returns an error and its causes in one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Failure for ServeError {
    fn kind(&self) -> Kind {
        match self {
            Self::Console(error) => error.kind(),
            Self::Endpoint(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Console(error) => error.hint(),
            Self::Endpoint(error) => endpoint_hint(error).map(str::to_owned),
        }
    }

    fn console(&self) -> Option<&ConsoleError> {
        match self {
            Self::Console(error) => Some(error),
            Self::Endpoint(_) => None,
        }
    }
}

/// Returns the hint for an error of the endpoint.
fn endpoint_hint(error: &EndpointError) -> Option<&'static str> {
    use std::io::ErrorKind;
    Some(match error {
        EndpointError::Listen { source, .. } => match source.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there, perhaps another tdekit serve: stop it, or name \
                 another port with --listen"
            }
            ErrorKind::AddrNotAvailable => "name an address of this machine with --listen",
            ErrorKind::PermissionDenied => "ports below 1024 need rights: name another one",
            _ => return None,
        },
        EndpointError::File { action: "serve", source, .. }
            if source.kind() == ErrorKind::NotFound =>
        {
            "make the directory first, or name a database that is there"
        }
        EndpointError::Identity { .. } => {
            "--tls-cert takes a chain in PEM, the server's certificate first; --tls-key its \
             private key in PEM, not encrypted"
        }
        EndpointError::Logins { .. } => {
            "move the file away and make the logins again with `tdekit serve login add`"
        }
        _ => return None,
    })
}
