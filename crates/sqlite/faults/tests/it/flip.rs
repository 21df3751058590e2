//! Single flipped bits in the main file, the log and the journal.
//!
//! `TDEKIT_EXHAUSTIVE=1` flips every bit where a page-level read decides, and a bit in every byte
//! where SQL must open the database; the other forms use odd strides, so that every bit position
//! occurs.

use tdekit_faults_sqlite::flip::{Outcomes, Target};
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::top::Top;

fn stride(full: usize, thorough: usize) -> usize {
    by_form(full * 7, full, thorough)
}

fn show(what: &str, outcomes: &Outcomes) {
    println!(
        "{what}: {} flips, {} errors, {} same, {} earlier (by at most {}), {} wrong",
        outcomes.trials,
        outcomes.errors,
        outcomes.same,
        outcomes.earlier,
        outcomes.earlier_by,
        outcomes.wrong
    );
    for example in outcomes.examples.iter().chain(&outcomes.first_errors).take(6) {
        println!("    {example}");
    }
}

/// Plain SQLite reads flipped bits as they are: the suite can fail.
#[test]
fn plain_sqlite_returns_wrong_bytes() {
    let directory = scratch().unwrap();
    let target = Target::closed(Top::Plain, 1024, directory.path()).unwrap();
    let pages = target.flip_pages(101).unwrap();
    show("plain main file, by page", &pages);
    assert_eq!(pages.wrong, pages.trials);
    let sql = target.flip_by_sql("main.db", 0..target.bits("main.db").unwrap(), 1009).unwrap();
    show("plain main file, by SQL", &sql);
    assert!(sql.wrong > 100);
}

#[test]
fn main_file_pages() {
    for (page_size, ci) in [(1024, 1), (4096, 7)] {
        let directory = scratch().unwrap();
        let target = Target::closed(Top::Tdekit, page_size, directory.path()).unwrap();
        let outcomes = target.flip_pages(stride(ci, 1)).unwrap();
        show(&format!("main file, {page_size}-byte pages, by page"), &outcomes);
        // The tag covers every bit of a page.
        assert_eq!(outcomes.errors, outcomes.trials);
        assert!(outcomes.trials >= (64 * page_size * 8 / stride(ci, 1)) as u64);
    }
}

#[test]
fn main_file_by_sql() {
    let directory = scratch().unwrap();
    let target = Target::closed(Top::Tdekit, 4096, directory.path()).unwrap();
    let shift = target.shift().unwrap() * 8;
    let header = target.flip_by_sql("main.db", 0..shift, stride(61, 1)).unwrap();
    show("header area, by SQL", &header);
    // The other slot is used.
    assert_eq!(header.same, header.trials);
    let bits = target.bits("main.db").unwrap();
    let pages = target.flip_by_sql("main.db", shift..bits, stride(1009, 7)).unwrap();
    show("main file, by SQL", &pages);
    assert_eq!((pages.wrong, pages.earlier), (0, 0));
    assert!(pages.errors > pages.trials / 2);
}

#[test]
fn log_frames() {
    for (page_size, ci) in [(1024, 1), (4096, 7)] {
        let directory = scratch().unwrap();
        let target = Target::with_log(Top::Tdekit, page_size, directory.path()).unwrap();
        let outcomes = target.flip_frames(stride(ci, 1)).unwrap();
        show(&format!("log, {page_size}-byte pages, by frame"), &outcomes);
        assert_eq!(outcomes.wrong, 0);
        // A page read needs 4 of the 72 bytes before the page; recovery checks the others. A page
        // that the pager had read before may come from memory.
        assert!(outcomes.errors > outcomes.trials / 100 * 91);
    }
}

#[test]
fn log_by_sql() {
    for page_size in [1024, 4096] {
        let directory = scratch().unwrap();
        let target = Target::with_log(Top::Tdekit, page_size, directory.path()).unwrap();
        let bits = target.bits("-wal").unwrap();
        let step = stride((bits / 701) | 1, (bits / 100_003) | 1);
        let outcomes = target.flip_by_sql("-wal", 0..bits, step).unwrap();
        show(&format!("log, {page_size}-byte pages, by SQL"), &outcomes);
        assert_eq!((outcomes.wrong, outcomes.earlier), (0, 0));
        assert!(outcomes.errors > outcomes.trials / 2);
    }
}

#[test]
fn journal_by_sql() {
    for page_size in [1024, 4096] {
        let directory = scratch().unwrap();
        let target = Target::with_hot_journal(Top::Tdekit, page_size, directory.path()).unwrap();
        let bits = target.bits("-journal").unwrap();
        let step = stride((bits / 2003) | 1, 7);
        let outcomes = target.flip_by_sql("-journal", 0..bits, step).unwrap();
        show(&format!("journal, {page_size}-byte pages, by SQL"), &outcomes);
        assert_eq!((outcomes.wrong, outcomes.earlier), (0, 0));
        assert!(outcomes.errors > outcomes.trials / 2);
        let main = target.bits("main.db").unwrap();
        let outcomes = target.flip_by_sql("main.db", 0..main, stride(4099, 61)).unwrap();
        show(&format!("main file under a hot journal, {page_size}-byte pages"), &outcomes);
        assert_eq!((outcomes.wrong, outcomes.earlier), (0, 0));
    }
}
