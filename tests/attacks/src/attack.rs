//! The model of an attack, and its outcome.

use anyhow::Result;
use fastrand::Rng;

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command refused, and nothing new exists under the final name.
    Refused,
    /// The command returned exactly the right data: the damage did not affect it, or was repaired.
    Right,
    /// Wrong data accepted, right data lost, or a false verdict.
    Wrong(String),
}

/// Makes one attempt.
type Attempt<'a> = Box<dyn FnMut(&mut Rng) -> Result<Outcome> + 'a>;

/// A kind of attack.
pub(crate) struct Attack<'a> {
    /// The attacker's action, for a row of the table.
    pub(crate) name: &'static str,
    pub(crate) attempt: Attempt<'a>,
}

impl<'a> Attack<'a> {
    pub(crate) fn new(
        name: &'static str,
        attempt: impl FnMut(&mut Rng) -> Result<Outcome> + 'a,
    ) -> Self {
        Self { name, attempt: Box::new(attempt) }
    }
}

/// The outcome of all attempts at one attack.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) tried: u64,
    pub(crate) refused: u64,
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    /// The first wrong outcomes, with the seed of each attempt.
    pub(crate) examples: Vec<String>,
}

/// Maximum number of reported wrong outcomes of an attack.
const EXAMPLES: usize = 3;

impl Row {
    pub(crate) fn add(&mut self, seed: u64, outcome: Outcome) {
        self.tried += 1;
        match outcome {
            Outcome::Refused => self.refused += 1,
            Outcome::Right => self.right += 1,
            Outcome::Wrong(what) => {
                self.wrong += 1;
                if self.examples.len() < EXAMPLES {
                    self.examples.push(format!("attempt {seed}: {what}"));
                }
            }
        }
    }
}

/// Changes bytes like real damage: a bit, a truncation, a run of zeros, a part that is repeated,
/// removed or moved. The result differs from `bytes`.
pub(crate) fn damaged(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    loop {
        let mut damaged = bytes.to_vec();
        let at = rng.usize(..bytes.len());
        let end = (at + 1 + rng.usize(..1 + bytes.len() / 4)).min(bytes.len());
        match rng.u8(..6) {
            0 | 1 => damaged[at] ^= 1 << rng.u8(..8),
            2 => damaged.truncate(at),
            3 => damaged[at..end].fill(0),
            4 => drop(damaged.drain(at..end)),
            _ => {
                let stretch = bytes[at..end].to_vec();
                let to = rng.usize(..=damaged.len());
                drop(damaged.splice(to..to, stretch));
            }
        }
        if damaged != bytes {
            return damaged;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_changes_something() {
        let bytes = [0; 64];
        let mut rng = Rng::with_seed(1);
        assert!((0..1000).all(|_| damaged(&mut rng, &bytes) != bytes));
    }

    #[test]
    fn outcomes_are_counted() {
        let mut row = Row::default();
        for at in 0..5 {
            row.add(at, Outcome::Wrong("x".into()));
        }
        row.add(5, Outcome::Refused);
        row.add(6, Outcome::Right);
        assert_eq!((row.tried, row.refused, row.right, row.wrong), (7, 1, 1, 5));
        assert_eq!(row.examples.len(), EXAMPLES);
    }
}
