//! A request to the program that asks key services, and its answer: through pipes, never through
//! arguments, files or the environment.
//!
//! Request: length (4 bytes, little-endian) and JSON, length (2) and bytes to wrap or unwrap.
//! Answer: 0 done, 1 done and bound to the store, 2 failed; length (2) and bytes, for 2 the reason.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tdekit_key_crypto::SecretBytes;

use super::program::program;
use super::{KeyService, ServiceAccess};
use crate::error::StoreError;

pub(super) const DEFAULT_TIMEOUT_S: u16 = 30;
const MAX_TIMEOUT_S: u16 = 300;
/// The program observes its own time limit; one that does not is killed after this additional time.
const GRACE: Duration = Duration::from_secs(5);
/// Every system's pipe accepts this much before anybody reads it.
const MAX_REQUEST_BYTES: usize = 4096;
const MAX_ANSWER_BYTES: usize = 3 + 4096;
/// Secrets that the program does not need.
const NOT_INHERITED: [&str; 8] = [
    "TDEKIT_PASSWORD",
    "TDEKIT_BACKUP_PASSWORD",
    "TDEKIT_LOGIN_PASSWORD",
    "TDEKIT_OLD_KEY",
    "TDEKIT_KEY",
    "TDEKIT_PKCS11_PIN",
    // The program is not the host: libraries preloaded into the host are not for it.
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
];

/// An operation of a key service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceOperation {
    /// Wrap a secret.
    Wrap,
    /// Unwrap a wrapped secret.
    Unwrap {
        /// True if the secret was bound to the store when it was wrapped.
        bound: bool,
    },
}

/// A request to a key service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRequest {
    /// The key.
    pub service: KeyService,
    /// The operation.
    pub operation: ServiceOperation,
    /// Total time limit in seconds.
    pub timeout_s: u16,
    /// Identifier of the store, in hexadecimal digits. The wrapped secret is bound to it.
    pub store_id: String,
    /// Identifier of the protector, likewise.
    pub protector_id: String,
}

/// The answer of a key service.
#[derive(Debug)]
pub struct ServiceAnswer {
    /// The wrapped or the unwrapped secret.
    pub output: SecretBytes,
    /// When wrapping: true if the service bound the secret to the store.
    pub bound: bool,
}

impl ServiceRequest {
    /// Reads a request and the bytes that it concerns.
    ///
    /// # Errors
    /// `InvalidData` for anything but a request; those of `from`.
    pub fn read(from: &mut impl Read) -> io::Result<(Self, SecretBytes)> {
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_REQUEST_BYTES {
            return Err(invalid("not a request to a key service"));
        }
        let mut json = vec![0; length];
        from.read_exact(&mut json)?;
        let request =
            serde_json::from_slice(&json).map_err(|_| invalid("not a request to a key service"))?;
        let mut length = [0; 2];
        from.read_exact(&mut length)?;
        let mut input = SecretBytes::new_zeroed(usize::from(u16::from_le_bytes(length)))
            .map_err(io::Error::other)?;
        from.read_exact(input.expose_mut())?;
        Ok((request, input))
    }

    fn write(&self, to: &mut impl Write, input: &SecretBytes) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the request is too long");
        if json.len() + input.len() + 6 > MAX_REQUEST_BYTES {
            return Err(too_long());
        }
        to.write_all(&u32::try_from(json.len()).map_err(|_| too_long())?.to_le_bytes())?;
        to.write_all(&json)?;
        to.write_all(&u16::try_from(input.len()).map_err(|_| too_long())?.to_le_bytes())?;
        to.write_all(input.expose())
    }
}

impl ServiceAnswer {
    /// Writes an answer, or the reason for a failure. A reason is cut to 2048 bytes.
    ///
    /// # Errors
    /// Those of `to`; `InvalidInput` for an output that is too long.
    pub fn write(answer: &Result<Self, String>, to: &mut impl Write) -> io::Result<()> {
        let (state, bytes) = match answer {
            Ok(answer) => (u8::from(answer.bound), answer.output.expose()),
            Err(reason) => (2, reason.get(..2048).unwrap_or(reason).as_bytes()),
        };
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "the answer is too long");
        let length = u16::try_from(bytes.len()).map_err(invalid)?.to_le_bytes();
        to.write_all(&[state, length[0], length[1]])?;
        to.write_all(bytes)?;
        to.flush()
    }

    /// Parses an answer; `None` for anything else.
    fn parse(bytes: &[u8]) -> Option<Result<Self, String>> {
        let (head, rest) = bytes.split_at_checked(3)?;
        let (state, length) = (*head.first()?, [*head.get(1)?, *head.get(2)?]);
        if rest.len() != usize::from(u16::from_le_bytes(length)) {
            return None;
        }
        match state {
            0 | 1 => {
                let output = SecretBytes::from_slice(rest).ok()?;
                Some(Ok(Self { output, bound: state == 1 }))
            }
            2 => Some(Err(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

/// Starts the program and lets it ask the service.
pub(super) fn ask(
    access: &ServiceAccess,
    request: &ServiceRequest,
    input: &SecretBytes,
) -> Result<ServiceAnswer, StoreError> {
    let fault = |reason: String| StoreError::Service {
        service: access.service.to_string(),
        reason,
        others: Vec::new(),
    };
    if !(1..=MAX_TIMEOUT_S).contains(&request.timeout_s) {
        return Err(StoreError::InvalidValue {
            what: "time for a key service",
            value: request.timeout_s.to_string(),
            reason: "is not between 1 and 300 seconds",
        });
    }
    let path = program(access)?;
    let pipe = |error| StoreError::io("make a pipe for", &path)(error);
    let (to_read, mut to_write) = io::pipe().map_err(pipe)?;
    // Written before the program starts: the read end is open, so no signal can result, and the
    // pipe accepts the whole request.
    request.write(&mut to_write, input).map_err(pipe)?;
    drop(to_write);
    let mut command = Command::new(&path);
    command.arg0("tdekit").arg("key-service").current_dir("/");
    command.stdin(to_read).stdout(Stdio::piped()).stderr(Stdio::null());
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let mut running = Running(command.spawn().map_err(StoreError::io("start", &path))?);
    drop(command);
    let time = Duration::from_secs(request.timeout_s.into()) + GRACE;
    let Some(answers) = running.0.stdout.take() else {
        return Err(fault("the program has no output".to_owned()));
    };
    let bytes = read_all(answers, Instant::now() + time).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => fault(format!("no answer within {} s", time.as_secs())),
        _ => StoreError::io("read from", &path)(error),
    })?;
    match ServiceAnswer::parse(bytes.expose()) {
        Some(answer) => answer.map_err(fault),
        None => Err(fault(format!("{} ended without an answer", path.display()))),
    }
}

/// A child that is killed and reaped in any case. A host may have reaped it already, which is not a
/// fault: the answer matters, not the exit status.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_all(mut from: ChildStdout, until: Instant) -> io::Result<SecretBytes> {
    let mut bytes = SecretBytes::new_zeroed(MAX_ANSWER_BYTES + 1).map_err(io::Error::other)?;
    let mut len = 0;
    while len < bytes.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match from.read(bytes.expose_mut().get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VaultKey;

    fn request() -> ServiceRequest {
        ServiceRequest {
            service: KeyService::Vault(VaultKey {
                address: "https://vault.example".to_owned(),
                key: "k".to_owned(),
                mount: "transit".to_owned(),
                namespace: None,
                ca_file: Some("/ca".into()),
                token_file: None,
            }),
            operation: ServiceOperation::Unwrap { bound: true },
            timeout_s: 30,
            store_id: "00".repeat(16),
            protector_id: "11".repeat(16),
        }
    }

    #[test]
    fn requests_and_answers_come_back_whole_or_not_at_all() {
        let input = SecretBytes::from_slice(b"wrapped").unwrap();
        let mut bytes = Vec::new();
        request().write(&mut bytes, &input).unwrap();
        let (read, same) = ServiceRequest::read(&mut bytes.as_slice()).unwrap();
        assert_eq!((read, same.expose()), (request(), input.expose()));
        for cut in 0..bytes.len() {
            assert!(ServiceRequest::read(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        let long = ServiceRequest { store_id: "0".repeat(5000), ..request() };
        assert!(long.write(&mut Vec::new(), &input).is_err());
        assert!(ServiceRequest::read(&mut [255; 4096].as_slice()).is_err());

        for bound in [false, true] {
            let answer = ServiceAnswer { output: input.try_clone().unwrap(), bound };
            let mut bytes = Vec::new();
            ServiceAnswer::write(&Ok(answer), &mut bytes).unwrap();
            for cut in 0..bytes.len() {
                assert!(ServiceAnswer::parse(&bytes[..cut]).is_none(), "{cut}");
            }
            let parsed = ServiceAnswer::parse(&bytes).unwrap().unwrap();
            assert_eq!((parsed.output.expose(), parsed.bound), (input.expose(), bound));
        }
        let mut bytes = Vec::new();
        ServiceAnswer::write(&Err("away".to_owned()), &mut bytes).unwrap();
        assert_eq!(ServiceAnswer::parse(&bytes).unwrap().unwrap_err(), "away");
        assert!(ServiceAnswer::parse(&[3, 0, 0]).is_none());
    }
}
