//! An agent: a process that keeps a password's Argon2id hash for other processes of its user.
//!
//! One request per connection, over a Unix socket of the agent's. The request is [`MAGIC`] and the
//! parameters of a password's protector (cost and salt, 32 bytes); the answer is one byte, 1 where
//! the agent knows them, and then the hash (32 bytes). Requests contain no secret. `docs/keys.md`
//! describes the effect of an agent on the store's security.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::password::PasswordParams;

use super::password::{HASH_LEN, Password, param_bytes};
use super::{Provider, Unlock, read_password_file};
use crate::derive::{Binding, open_master_key};
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

/// Name of the variable with an agent's socket.
pub const AGENT_VARIABLE: &str = "TDEKIT_AGENT_SOCK";

const MAGIC: &[u8; 8] = b"tdekit 1";
const PARAMS_LEN: usize = 32;
const KNOWN: u8 = 1;
/// Time for which either side waits for the other.
const WAIT: Duration = Duration::from_secs(5);

/// The key that opens one protector of a store in place of its password.
pub struct AgentKey {
    params: [u8; PARAMS_LEN],
    hash: SecretBytes,
}

impl AgentKey {
    /// Returns a key for each of `protectors` that the password of `secret` opens; `None` where
    /// `secret` is not a password.
    ///
    /// # Errors
    /// `BadSecret`, `InsecureFile`, `Io`, `Crypto`.
    pub(crate) fn opening<'a>(
        secret: &Unlock,
        protectors: impl Iterator<Item = (&'a Protector, Binding)>,
    ) -> Result<Option<Vec<Self>>, StoreError> {
        let cost = PasswordParams::default();
        let password = match secret {
            Unlock::Password(password) => Password::new(password.try_clone()?, "password", cost)?,
            Unlock::PasswordFile(path) => {
                Password::new(read_password_file(path)?, &path.display().to_string(), cost)?
            }
            _ => return Ok(None),
        };
        let mut keys = Vec::new();
        for (protector, binding) in protectors {
            let hash = password.hash_for(protector)?;
            if open_master_key(&hash, protector, &binding)?.is_some() {
                keys.push(Self { params: param_bytes(protector)?, hash });
            }
        }
        Ok(Some(keys))
    }

    /// Answers a request that [`AgentQuestion::read`] read.
    ///
    /// # Errors
    /// An error where the peer is gone, or accepts nothing for seconds.
    pub fn answer(
        keys: &[Self],
        question: &AgentQuestion,
        stream: &mut UnixStream,
    ) -> io::Result<()> {
        match keys.iter().find(|key| key.params == question.0) {
            Some(key) => {
                stream.write_all(&[KNOWN])?;
                stream.write_all(key.hash.expose())
            }
            None => stream.write_all(&[0]),
        }
    }
}

/// A request to an agent: the parameters of a password's protector.
pub struct AgentQuestion([u8; PARAMS_LEN]);

impl AgentQuestion {
    /// Reads the request of one connection.
    ///
    /// # Errors
    /// An error where the peer sends another request, disconnects or is silent for seconds.
    pub fn read(stream: &mut UnixStream) -> io::Result<Self> {
        let end = Instant::now() + WAIT;
        stream.set_write_timeout(Some(WAIT))?;
        let (mut magic, mut params) = ([0; MAGIC.len()], [0; PARAMS_LEN]);
        read_until(stream, &mut magic, end)?;
        if magic != *MAGIC {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        read_until(stream, &mut params, end)?;
        Ok(Self(params))
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(redacted)")
    }
}

/// Provider that opens a store by an agent's answer.
pub(super) struct Agent<'a> {
    pub(super) socket: &'a Path,
}

impl Agent<'_> {
    fn failed(&self, reason: impl fmt::Display) -> StoreError {
        StoreError::Agent { socket: self.socket.to_owned(), reason: reason.to_string() }
    }

    /// Asks for the hash of a protector; `None` where the agent does not know it.
    fn ask(&self, protector: &Protector) -> Result<Option<SecretBytes>, StoreError> {
        let params = param_bytes(protector)?;
        let mut hash = SecretBytes::new_zeroed(HASH_LEN)?;
        let mut ask = || -> io::Result<bool> {
            let mut stream = UnixStream::connect(self.socket)?;
            let end = Instant::now() + WAIT;
            stream.set_write_timeout(Some(WAIT))?;
            stream.write_all(&[MAGIC.as_slice(), &params].concat())?;
            let mut known = [0];
            read_until(&mut stream, &mut known, end)?;
            if known[0] != KNOWN {
                return Ok(false);
            }
            read_until(&mut stream, hash.expose_mut(), end)?;
            Ok(true)
        };
        ask().map(|known| known.then_some(hash)).map_err(|error| self.failed(error))
    }
}

/// Fills `out` before `end`, however slowly the peer sends.
fn read_until(stream: &mut UnixStream, out: &mut [u8], end: Instant) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the agent at `socket` knows one of the protectors.
pub(crate) fn knows<'a>(
    socket: &Path,
    mut protectors: impl Iterator<Item = &'a Protector>,
) -> bool {
    let agent = Agent { socket };
    protectors.any(|protector| matches!(agent.ask(protector), Ok(Some(_))))
}

impl Provider for Agent<'_> {
    fn kind(&self) -> ProtectorKind {
        ProtectorKind::Password
    }

    fn seal(&self, _master_key: &SecretBytes, _: &Binding) -> Result<Protector, StoreError> {
        Err(self.failed("an agent only opens the key store; this needs the password itself"))
    }

    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError> {
        let Some(hash) = self.ask(protector)? else {
            return Err(self.failed("it does not know this key store, or no more"));
        };
        open_master_key(&hash, protector, binding)?
            .ok_or_else(|| self.failed("its key does not open the key store"))
    }
}

/// The agent that a variable names.
pub(super) fn named(socket: std::ffi::OsString) -> Unlock {
    Unlock::Agent(PathBuf::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: &[u8]) -> (io::Result<()>, Vec<u8>) {
        let key = AgentKey { params: [7; 32], hash: SecretBytes::from_slice(&[9; 32]).unwrap() };
        assert_eq!(format!("{key:?}"), "AgentKey(redacted)");
        let (mut client, mut agent) = UnixStream::pair().unwrap();
        client.write_all(question).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let answered = AgentQuestion::read(&mut agent)
            .and_then(|question| AgentKey::answer(&[key], &question, &mut agent));
        drop(agent);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        (answered, answer)
    }

    #[test]
    fn who_drips_bytes_is_not_waited_for() {
        let (mut client, mut agent) = UnixStream::pair().unwrap();
        let end = Instant::now() + Duration::from_millis(200);
        let dripping = std::thread::spawn(move || {
            while client.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(read_until(&mut agent, &mut [0; 1000], end).is_err());
        drop(agent);
        dripping.join().unwrap();
    }

    #[test]
    fn only_what_is_asked_for_by_its_salt_is_answered() {
        let question = |params: u8| [MAGIC.as_slice(), &[params; 32]].concat();
        let (answered, answer) = asked(&question(7));
        assert!(answered.is_ok());
        assert_eq!(answer, [&[1][..], &[9; 32]].concat());
        let (answered, answer) = asked(&question(8));
        assert!(answered.is_ok());
        assert_eq!(answer, [0]);
        for wrong in [&b""[..], b"tdekit 2", &question(7)[..39], &[0; 40]] {
            let (answered, answer) = asked(wrong);
            assert!(answered.is_err() && answer.is_empty(), "{wrong:?}");
        }
    }
}
