//! Prompts for secrets on the terminal, and their end by a signal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tdekit_key_store::{SecretBytes, StoreError};
use zeroize::{Zeroize, Zeroizing};

use crate::error::ConsoleError;
use crate::output;

/// The terminal of a prompt that waits for its answer, and its settings before that.
static WAITING: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Whether a password is one that exists or a new one, which is asked for twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// One that exists.
    Existing,
    /// A new one.
    New,
}

/// Returns true if there is a terminal for prompts.
#[must_use]
pub fn on_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Asks for a password on the terminal, without echo.
///
/// # Errors
/// `PasswordsDiffer`, `Io`, `Store`.
pub fn prompt(text: &str, ask: Ask) -> Result<SecretBytes, ConsoleError> {
    let password = answer(&format!("{text}: "))?;
    if ask == Ask::New && *password != *answer("Once more: ")? {
        return Err(ConsoleError::PasswordsDiffer);
    }
    let password = secret(password.as_bytes().to_vec())?;
    if ask == Ask::New {
        output::warn_short_password(&password);
    }
    Ok(password)
}

/// For a program's handler of signals, which the library that prompts ignores: if a prompt waits,
/// gives the terminal its echo back and returns true. The program then ends.
pub fn leave_prompt() -> bool {
    let Some((terminal, settings)) = waiting().take() else { return false };
    let _ = tcsetattr(terminal, OptionalActions::Flush, &settings);
    eprintln!();
    true
}

/// Moves a secret into memory that is erased.
pub(crate) fn secret(mut bytes: Vec<u8>) -> Result<SecretBytes, ConsoleError> {
    let secret = SecretBytes::from_slice(&bytes).map_err(StoreError::Crypto);
    bytes.zeroize();
    Ok(secret?)
}

fn answer(question: &str) -> Result<Zeroizing<String>, ConsoleError> {
    *waiting() = File::open("/dev/tty")
        .ok()
        .and_then(|terminal| tcgetattr(&terminal).ok().map(|settings| (terminal, settings)));
    let answer = rpassword::prompt_password(question);
    waiting().take();
    Ok(Zeroizing::new(answer?))
}

fn waiting() -> std::sync::MutexGuard<'static, Option<(File, Termios)>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
