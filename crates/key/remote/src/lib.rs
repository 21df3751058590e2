//! Asks key services on behalf of the `tdekit` program: HashiCorp Vault and OpenBao through their
//! transit engine, and AWS KMS. Each run wraps or unwraps one small secret. The crate knows of a
//! key store only the names in a request.
//!
//! Everything is bounded: the size of an answer, the time of a try, the number of tries, the total
//! time. TLS certificates are always checked. Redirects are never followed.

mod credentials;
mod error;
mod http;
mod kms;
mod vault;

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{KeyService, ServiceAnswer, ServiceOperation, ServiceRequest};

use error::RemoteError;

/// Reads one request, asks the service, and writes the answer.
///
/// # Errors
/// Those of `from` and `to`. A refusal by the service is an answer, not an error.
pub fn serve(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let (request, input) = ServiceRequest::read(from)?;
    let answer = ask(&request, &input).map_err(|error| error.to_string());
    ServiceAnswer::write(&answer, to)
}

fn ask(request: &ServiceRequest, input: &SecretBytes) -> Result<ServiceAnswer, RemoteError> {
    let deadline = Instant::now() + Duration::from_secs(request.timeout_s.into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RemoteError::System { reason: error.to_string() })?;
    let asked = async {
        match (&request.service, request.operation) {
            (KeyService::Vault(key), ServiceOperation::Wrap) => {
                vault::wrap(key, request, input, deadline).await
            }
            (KeyService::Vault(key), ServiceOperation::Unwrap { bound }) => {
                vault::unwrap(key, request, input, bound, deadline).await
            }
            (KeyService::AwsKms(key), ServiceOperation::Wrap) => {
                kms::wrap(key, request, input, deadline).await
            }
            (KeyService::AwsKms(key), ServiceOperation::Unwrap { .. }) => {
                kms::unwrap(key, request, input, deadline).await
            }
        }
    };
    let time = Duration::from_secs(request.timeout_s.into());
    // The timer belongs to the runtime, so it must be made inside it.
    let answer = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { tokio::time::timeout(time, asked).await })
    }));
    // A name server that does not answer must not keep the process alive.
    runtime.shutdown_background();
    // The client of object stores, which finds AWS's credentials, panics on answers that it does
    // not expect.
    let answer = answer.map_err(|_| RemoteError::Garbage { reason: "an answer is not valid" })?;
    answer.unwrap_or(Err(RemoteError::TimedOut { after_s: request.timeout_s }))
}
