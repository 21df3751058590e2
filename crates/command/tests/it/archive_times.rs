//! Restores from archives to times that are later than all that is there.

use std::fs;

use serde_json::Value;
use tdekit_backup_run::date_of_ms;

use crate::archive_damage::{record, time_of};
use crate::databases::place;
use crate::replicate::{Pair, text};
use crate::replicate_clock::{current, now_ms, set_current};

const LATER: &str = "2199-01-01 00:00:00";
const WARNING: &str = "is known to have everything up to ";

/// Restores to a time: expects the warning that the archive is known to have everything up to
/// `known`, or none, and the number of rows.
fn expect(pair: &Pair, at: &str, known: Option<&str>, rows: usize) {
    let to = pair.dir.path("restored.db");
    let _ = fs::remove_file(&to);
    let words = ["restore", text(&pair.archive), "--at", at, "--to", text(&to), "--json"];
    let run = place().run(words);
    assert_eq!(run.code, 0, "{at}: {run:?}");
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["known_to"].as_str(), known, "{at}: {run:?}");
    match known {
        Some(known) => assert!(run.err.contains(&format!("{WARNING}{known}:")), "{at}: {run:?}"),
        None => assert!(!run.err.contains(WARNING), "{at}: {run:?}"),
    }
    assert_eq!(pair.restored(at).len(), rows, "{at}");
}

/// Returns the later one of the times of the last transaction and of the record.
fn known_to(pair: &Pair) -> String {
    time_of(pair, "latest").max(date_of_ms(current(pair).unwrap()))
}

#[test]
fn a_time_behind_the_archives_end_is_warned_of() {
    for encrypted in [false, true] {
        let pair = Pair::new(encrypted);
        let keep = pair.db();
        pair.ship();
        // The full set alone, up to its own time or that of the record.
        expect(&pair, LATER, Some(&known_to(&pair)), 0);
        set_current(&pair, now_ms());
        let (first, old) = (current(&pair).unwrap(), fs::read(record(&pair)).unwrap());
        expect(&pair, &date_of_ms(first), None, 0);
        expect(&pair, LATER, Some(&date_of_ms(first)), 0);
        pair.add(1);
        pair.ship();
        expect(&pair, LATER, Some(&known_to(&pair)), 1);
        // Up to the time of the record nothing can come behind it.
        set_current(&pair, now_ms());
        let known = current(&pair).unwrap();
        let last = time_of(&pair, "latest");
        assert!(last < date_of_ms(known));
        for at in [date_of_ms(known), last.clone(), "latest".into(), "latest-good".into()] {
            expect(&pair, &at, None, 1);
        }
        for at in [date_of_ms(known + 1), date_of_ms(known + 900), LATER.to_owned()] {
            expect(&pair, &at, Some(&date_of_ms(known)), 1);
        }
        // What comes behind it later.
        let asked = now_ms() - 1;
        assert!(asked > known);
        expect(&pair, &date_of_ms(asked), Some(&date_of_ms(known)), 1);
        let whole = fs::read(record(&pair)).unwrap();
        set_current(&pair, asked);
        expect(&pair, &date_of_ms(asked), None, 1);
        // A record of the future claims nothing, nor does one of an earlier object, or none.
        set_current(&pair, now_ms() + 3_600_000);
        expect(&pair, &date_of_ms(asked), Some(&last), 1);
        fs::write(record(&pair), old).unwrap();
        set_current(&pair, asked);
        expect(&pair, &date_of_ms(asked), Some(&last), 1);
        fs::remove_file(record(&pair)).unwrap();
        expect(&pair, &date_of_ms(asked), Some(&last), 1);
        expect(&pair, &last, None, 1);
        fs::write(record(&pair), whole).unwrap();
        // A chain behind it shows what is not there.
        fs::remove_file(record(&pair)).unwrap();
        pair.add(2);
        pair.ship();
        let (run, _) = pair.try_restore(&date_of_ms(asked));
        assert!(run.err.contains("no log set has it") && !run.err.contains(WARNING), "{run:?}");
        expect(&pair, LATER, Some(&known_to(&pair)), 2);
        drop(keep);
    }
}
