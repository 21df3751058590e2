//! Locks of objects: S3 keeps a locked object for some days, whoever asks for its removal.
//!
//! The client library knows nothing of locks, so they are asked for where it sends its requests,
//! which are then signed anew: Amazon's server refuses headers that are not part of the signature.

use std::sync::{Mutex, PoisonError};

use object_store::HeaderValue;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest};
use object_store::path::Path;
use tdekit_key_store::{iso8601, now_seconds};

use super::ObjectFault;
use super::access::Access;
use super::address::is_work;
use crate::ObjectLock;

const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const DIGEST: &str = "x-amz-content-sha256";
const DAY_S: i64 = 24 * 3600;
/// Length of a time without fractions of a second and zone.
const SECONDS_LEN: usize = "2036-11-21T00:00:00".len();

/// The lock that new objects get, and what signs the requests.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) lock: ObjectLock,
    pub(super) credentials: AwsCredentialProvider,
    pub(super) region: String,
}

impl Lock {
    /// Asks for the lock, if the request makes an object.
    pub(super) async fn ask(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        if !makes_an_object(request) {
            return Ok(());
        }
        let fault = |told: String| HttpError::new(HttpErrorKind::Unknown, Unsigned(told));
        let mode = if self.lock.compliance { "COMPLIANCE" } else { "GOVERNANCE" };
        let until = iso8601(now_seconds().saturating_add(i64::from(self.lock.days) * DAY_S));
        let until = HeaderValue::from_str(&until).map_err(|error| fault(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(MODE, HeaderValue::from_static(mode));
        headers.insert(UNTIL, until);
        headers.remove("authorization");
        let digest = headers.get(DIGEST).and_then(|value| hex::decode(value.as_bytes()).ok());
        let credential = self.credentials.get_credential().await;
        let credential = credential.map_err(|error| fault(error.to_string()))?;
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .with_sign_payload(digest.is_some())
            .try_authorize(request, digest.as_deref())
            .map_err(|error| fault(error.to_string()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the request for a locked object cannot be signed: {0}")]
struct Unsigned(String);

/// Returns true for a request that puts an object or begins its upload, other than one that a
/// writer makes for itself and removes again.
fn makes_an_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let makes = match request.method().as_str() {
        "PUT" => query.is_empty(),
        "POST" => query == "uploads" || query.starts_with("uploads="),
        _ => false,
    };
    makes && !Path::from_url_path(request.uri().path()).is_ok_and(|key| is_work(&key))
}

/// What the store said of the lock of the object that was looked at last.
#[derive(Debug, Default)]
pub(super) struct Locks {
    until: Mutex<Option<String>>,
}

impl Locks {
    /// Notes the answer to a request for an object's metadata.
    pub(super) fn note(&self, headers: &object_store::HeaderMap) {
        let until = headers.get(UNTIL).and_then(|value| value.to_str().ok());
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until.map(str::to_owned);
    }

    /// Returns the end of the lock, if it has not come.
    fn in_force(&self) -> Option<String> {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let now = iso8601(now_seconds());
        // Both are ISO 8601 in UTC.
        (until.get(..SECONDS_LEN)? > now.get(..SECONDS_LEN)?).then_some(until)
    }
}

impl Access {
    /// Returns the end of an object's lock, if it has one that is in force and the store shows it.
    pub(super) async fn locked_until(&self, key: &Path) -> Result<Option<String>, ObjectFault> {
        let Some(locks) = &self.connection.locks else { return Ok(None) };
        Ok(if self.exists(key).await? { locks.in_force() } else { None })
    }

    /// Adds the lock to a refusal: some servers do not say what was wrong with the request.
    pub(super) fn explained(&self, fault: ObjectFault) -> ObjectFault {
        match fault {
            ObjectFault::Refused { reason } if self.options.storage.lock.is_some() => {
                let reason = format!(
                    "{reason} (a lock of the object was asked for: its bucket must have been made \
                     for locks)"
                );
                ObjectFault::Refused { reason }
            }
            fault => fault,
        }
    }

    /// Makes sure that a server other than Amazon's has not ignored the lock that was asked for; an
    /// object without it is removed again.
    pub(super) async fn check_lock(&self, key: &Path) -> Result<(), ObjectFault> {
        let wanted = self.options.storage.lock.is_some() && !self.connection.keeps_conditions;
        if !wanted || self.locked_until(key).await?.is_some() {
            return Ok(());
        }
        self.delete(key).await?;
        let reason = "it took the object and shows no lock of it; the credentials must allow \
                      s3:GetObjectRetention";
        Err(ObjectFault::Refused { reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;

    #[test]
    fn only_requests_that_make_an_object_ask_for_its_lock() {
        for (method, address, makes) in [
            ("PUT", "https://host/bucket/name", true),
            ("PUT", "https://host/bucket/a/name.0001", true),
            ("POST", "https://host/bucket/name?uploads", true),
            ("POST", "https://host/bucket/name?uploads=", true),
            ("PUT", "https://host/bucket/name?partNumber=1&uploadId=x", false),
            ("POST", "https://host/bucket/name?uploadId=x", false),
            ("GET", "https://host/bucket/name", false),
            ("PUT", "https://host/bucket/name.claim-0123456789abcdef", false),
            ("DELETE", "https://host/bucket/name", false),
        ] {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.method_mut() = method.parse().unwrap();
            *request.uri_mut() = address.parse().unwrap();
            assert_eq!(makes_an_object(&request), makes, "{method} {address}");
        }
    }

    #[test]
    fn a_lock_is_in_force_until_its_end() {
        let at = |until: &str| {
            let locks = Locks::default();
            let mut headers = object_store::HeaderMap::new();
            headers.insert(UNTIL, until.parse().unwrap());
            locks.note(&headers);
            let found = locks.in_force();
            locks.note(&object_store::HeaderMap::new());
            assert_eq!(locks.in_force(), None);
            found
        };
        assert_eq!(at("2999-01-01T00:00:00.000Z").as_deref(), Some("2999-01-01T00:00:00.000Z"));
        for over in ["2020-01-01T00:00:00Z", "never", ""] {
            assert_eq!(at(over), None, "{over}");
        }
    }
}
