//! Errors of the client library, in a form that a user can act on.

use std::error::Error as _;

use object_store::Error;
use object_store::client::HttpError;

use crate::ObjectFault;

/// Maximum number of characters of a store's text.
const REASON_CHARS: usize = 300;

/// Addresses that a cloud machine asks for its own credentials. Asked if none are set.
const OWN_CREDENTIALS: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

impl ObjectFault {
    /// A client cannot be made from the settings.
    pub(super) fn of_settings(error: &Error) -> Self {
        Self::Configuration { reason: Said::by(error).reason }
    }

    pub(super) fn of(error: &Error) -> Self {
        let said = Said::by(error);
        let reason = said.reason.clone();
        if said.transport && reason.contains("certificate") {
            // It will not go away.
            let reason = format!(
                "the server's certificate is not accepted: {reason}; AWS_CA_BUNDLE names the file \
                 of a private authority for S3"
            );
            return Self::Configuration { reason };
        }
        match error {
            Error::NotFound { .. } if said.names_a_bucket() => Self::NoBucket,
            Error::NotFound { .. } => Self::NoObject,
            Error::AlreadyExists { .. } => Self::Exists,
            Error::Precondition { .. } | Error::NotModified { .. } => Self::Changed,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                Self::Denied { reason }
            }
            Error::Generic { .. } => match (said.status, said.transport) {
                (Some(401 | 403), _) => Self::Denied { reason },
                (Some(404), _) if said.names_a_bucket() => Self::NoBucket,
                (Some(status @ (408 | 429 | 500 | 502..=599)), _) => {
                    Self::Failed { status, reason }
                }
                // A server's error in the body of a success.
                (Some(status @ 200..=299), _) => Self::Failed { status, reason },
                (Some(_), _) => Self::Refused { reason },
                (None, true) => Self::Unreachable { reason },
                (None, false) => Self::Refused { reason },
            },
            _ => Self::Refused { reason },
        }
    }
}

/// Text of an error's innermost cause.
struct Said {
    status: Option<u16>,
    /// True if the connection failed, not the store.
    transport: bool,
    code: String,
    reason: String,
}

impl Said {
    fn by(error: &Error) -> Self {
        let mut transport = false;
        let mut text = error.to_string();
        let own = OWN_CREDENTIALS.iter().any(|host| text.contains(host));
        let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
        while let Some(inner) = cause {
            text = inner.to_string();
            transport |= inner.is::<HttpError>();
            cause = inner.source();
        }
        let status = text
            .split_once("status code: ")
            .and_then(|(_, rest)| rest.get(..3))
            .and_then(|digits| digits.parse().ok())
            // This form of an error in the body of a success has no status.
            .or_else(|| text.starts_with("Server returned error response").then_some(200));
        let code = element(&text, "Code").unwrap_or_default().to_owned();
        let message = element(&text, "Message").unwrap_or_default();
        let reason = match (code.as_str(), message) {
            ("", _) => shortened(&text),
            (code, "") => shortened(code),
            (code, message) => shortened(&format!("{code}: {message}")),
        };
        let reason = match own && transport {
            true => format!("no credentials are set, and this machine has none: {reason}"),
            false => reason,
        };
        Self { status, transport, code, reason }
    }

    fn names_a_bucket(&self) -> bool {
        let codes = ["NoSuchBucket", "ContainerNotFound"];
        codes.contains(&self.code.as_str()) || self.reason.contains("bucket does not exist")
    }
}

/// Returns the text of an XML element, the form in which all three stores return their errors.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.trim())
}

/// Returns one line without control characters, of limited length.
fn shortened(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut words = plain.collect::<String>();
    words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(REASON_CHARS) {
        Some((at, _)) => format!("{}...", &words[..at]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpErrorKind;

    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.into() }
    }

    #[test]
    fn what_a_store_says_is_told_in_a_line() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n\
            <Error><Code>SignatureDoesNotMatch</Code><Message>The signature\ndiffers.</Message>\
            <StringToSign>AWS4</StringToSign></Error>";
        let denied = Error::PermissionDenied { path: "k".into(), source: body.into() };
        let reason = "SignatureDoesNotMatch: The signature differs.".to_owned();
        assert_eq!(ObjectFault::of(&denied), ObjectFault::Denied { reason });
        let long = generic(&"word ".repeat(1000));
        let ObjectFault::Refused { reason } = ObjectFault::of(&long) else { unreachable!() };
        assert!(reason.len() < 400, "{}", reason.len());
    }

    #[test]
    fn missing_credentials_are_told() {
        #[derive(Debug, thiserror::Error)]
        #[error("Error performing PUT http://169.254.169.254/latest/api/token")]
        struct Asked(#[source] HttpError);
        let refused = HttpError::new(HttpErrorKind::Connect, std::io::Error::other("refused"));
        let error = Error::Generic { store: "S3", source: Asked(refused).into() };
        let fault = ObjectFault::of(&error).to_string();
        assert!(fault.contains("no credentials are set") && fault.contains("refused"), "{fault}");
    }

    #[test]
    fn a_missing_bucket_is_not_a_missing_object() {
        let missing = |body: &str| {
            let source = format!("Server returned non-2xx status code: 404 Not Found: {body}");
            ObjectFault::of(&Error::NotFound { path: "k".into(), source: source.into() })
        };
        assert_eq!(missing("<Code>NoSuchBucket</Code>"), ObjectFault::NoBucket);
        assert_eq!(missing("<Code>ContainerNotFound</Code>"), ObjectFault::NoBucket);
        assert_eq!(missing("<Code>NoSuchKey</Code>"), ObjectFault::NoObject);
        assert_eq!(missing(""), ObjectFault::NoObject);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let transient = |error: &Error| ObjectFault::of(error).is_transient();
        let dropped = HttpError::new(HttpErrorKind::Interrupted, std::io::Error::other("reset"));
        assert!(transient(&Error::Generic { store: "S3", source: dropped.into() }));
        for status in ["500 Internal", "503 Slow Down", "429 Too Many", "408 Timeout"] {
            assert!(transient(&generic(&format!("non-2xx status code: {status}: "))), "{status}");
        }
        assert!(transient(&generic("Server returned error response: <Code>InternalError</Code>")));
        for status in ["400 Bad Request", "403 Forbidden", "501 Not", "301 Moved"] {
            assert!(!transient(&generic(&format!("non-2xx status code: {status}: "))), "{status}");
        }
        assert!(!transient(&generic("no credentials")));
    }
}
