//! The same random script on plain SQLite and on the layer under test.

mod faulty;
mod script;
mod world;

use std::path::Path;

pub use faulty::{Met, survive};
pub use script::{Step, script};
pub use world::World;

use crate::error::{Error, Result};
use crate::top::Top;

/// Runs `steps` in two worlds under `directory` and compares the outcome of each step.
///
/// # Errors
/// [`Error::Broken`] at the first difference.
pub fn compare(top: Top, steps: &[Step], directory: &Path) -> Result<()> {
    let place = |name: &str| -> Result<std::path::PathBuf> {
        let path = directory.join(name);
        std::fs::create_dir(&path).map_err(Error::io(&path))?;
        Ok(path)
    };
    let mut plain = World::new(Top::Plain, place("plain")?)?;
    let mut tested = World::new(top, place("tested")?)?;
    for (index, step) in steps.iter().enumerate() {
        let (expected, found) = (plain.run(step)?, tested.run(step)?);
        if expected != found {
            return Err(Error::Broken(format!(
                "step {index}, {step:?}: plain gives {}, {top} gives {} ({})",
                short(&expected),
                short(&found),
                tested.last_error()
            )));
        }
    }
    let (expected, found) = (plain.finish()?, tested.finish()?);
    if expected != found {
        return Err(Error::Broken("the databases differ at the end".into()));
    }
    Ok(())
}

/// Shrinks a failing script: leaves out ever smaller parts as long as it still fails.
#[must_use]
pub fn smallest(steps: &[Step], fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut kept = steps.to_vec();
    let mut part = kept.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + part).min(kept.len()));
            if fails(&fewer) {
                kept = fewer;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    kept
}

fn short(outcome: &world::Outcome) -> String {
    let mut text = format!("{outcome:?}");
    if let Some((cut, _)) = text.char_indices().nth(300) {
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_script_is_cut_to_what_fails() {
        let steps = script(1, 80);
        let needed = [&steps[3], &steps[41], &steps[79]];
        let small = smallest(&steps, |part| needed.iter().all(|step| part.contains(step)));
        assert!(small.len() >= 3 && small.len() <= 6, "{small:?}");
        assert_eq!(script(1, 80), steps);
    }
}
