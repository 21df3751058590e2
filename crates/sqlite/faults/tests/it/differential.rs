//! Random scripts on plain SQLite and on tdekit give the same rows, errors and databases.

use tdekit_faults_sqlite::differential::{Step, compare, script, smallest};
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::top::Top;

fn difference(top: Top, steps: &[Step]) -> Option<String> {
    let directory = scratch().unwrap();
    compare(top, steps, directory.path()).err().map(|error| error.to_string())
}

fn run(top: Top, seeds: std::ops::Range<u64>) {
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        let steps = script(seed, 120);
        if let Some(first) = difference(top, &steps) {
            let small = smallest(&steps, |part| difference(top, part).is_some());
            let last = difference(top, &small).unwrap_or_default();
            failures.push(format!("seed {seed}: {first}\n  smallest: {small:#?}\n  {last}"));
            if failures.len() == 5 {
                break;
            }
        }
    }
    println!("{top}: scripts {seeds:?} of 120 steps, {} differ", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn more(full: u64) -> u64 {
    by_form(full / 4, full, full * 50)
}

/// Plain SQLite agrees with itself: nothing in the scripts depends on chance.
#[test]
fn plain_agrees_with_itself() {
    run(Top::Plain, 0..more(40));
}

#[test]
fn tdekit_agrees_with_plain() {
    run(Top::Tdekit, 0..more(120));
}

#[test]
fn tdekit_agrees_with_plain_too() {
    run(Top::Tdekit, 1_000_000..1_000_000 + more(120));
}
