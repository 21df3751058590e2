//! Sets that a database which is RESTORING takes, from outside.

use std::fs;

use crate::served::{Client, Served, ok, one, text};

fn restore(client: &mut Client, what: &str) -> Vec<i32> {
    client.batch(&format!("RESTORE {what}")).errors()
}

fn state(client: &mut Client, name: &str) -> String {
    let named = format!("FROM sys.databases WHERE name = '{name}'");
    text(&one(client, &format!("SELECT state_desc {named}")))
}

/// Databases `d` and `other` with a full set and a differential one each.
fn two_databases(served: &Served) -> Client {
    let mut client = served.client_in("d");
    for name in ["d", "other"] {
        let make = if name == "d" { "" } else { "CREATE DATABASE other; " };
        let backup = format!("BACKUP DATABASE {name} TO DISK = '{name}.bak'");
        ok(&mut client, &format!("USE master; {make}{backup}"));
        ok(&mut client, &format!("CREATE TABLE {name}.dbo.{name} (id int)"));
        ok(&mut client, &format!("{backup} WITH DIFFERENTIAL"));
    }
    client
}

/// Both sets of `other`, with and without recovery, leave the database as it is.
fn refuses_the_other(client: &mut Client, name: &str, why: &str) {
    for at in [1, 2] {
        for with in ["NORECOVERY", "RECOVERY"] {
            let other = format!("DATABASE {name} FROM DISK = 'other.bak' WITH FILE = {at}, {with}");
            assert_eq!(restore(client, &other), [3154, 3013], "{why}: {other}");
        }
    }
    assert_eq!(state(client, name), "RESTORING", "{why}");
}

#[test]
fn a_database_that_is_restoring_takes_the_sets_of_its_own() {
    let mut served = Served::bare(&[]);
    let mut client = two_databases(&served);
    let from = |name: &str, at: u32| {
        format!("DATABASE {name} FROM DISK = 'd.bak' WITH FILE = {at}, NORECOVERY")
    };
    // Under its own name and, as a copy, under another one.
    ok(&mut client, &format!("RESTORE {}, REPLACE", from("d", 1)));
    ok(&mut client, &format!("RESTORE {}", from("n", 1)));
    served.kill();
    served.start();
    let mut client = served.client();
    let c = &mut client;
    for name in ["d", "n"] {
        refuses_the_other(c, name, "a set at hand");
        assert_eq!(restore(c, &from(name, 1)), [0; 0], "{name}");
        assert_eq!(restore(c, &from(name, 2)), [0; 0], "{name}");
        refuses_the_other(c, name, "a differential set at hand");
        assert_eq!(restore(c, &from(name, 1)), [0; 0], "{name}");
        assert_eq!(restore(c, &format!("DATABASE {name} FROM DISK = 'd.bak'")), [0; 0], "{name}");
        assert_eq!(state(c, name), "ONLINE");
        // REPLACE puts the other one in its place, which is then its own.
        ok(c, &format!("RESTORE {}, REPLACE", from(name, 1)));
        let other = format!("DATABASE {name} FROM DISK = 'other.bak' WITH NORECOVERY");
        assert_eq!(restore(c, &format!("{other}, REPLACE")), [0; 0]);
        assert_eq!(restore(c, &other), [0; 0]);
        assert_eq!(restore(c, &from(name, 1)), [3154, 3013]);
    }
}

#[test]
fn a_restore_that_was_cut_off_is_begun_again_without_replace() {
    let served = Served::bare(&[]);
    let mut client = two_databases(&served);
    let c = &mut client;
    let again = "DATABASE d FROM DISK = 'd.bak' WITH NORECOVERY";
    ok(c, &format!("RESTORE {again}, REPLACE"));
    let note = fs::read_to_string(served.data("d.db-tsql")).unwrap();
    let restoring = note.lines().find(|line| line.starts_with("restoring ")).unwrap();
    // As version 4 noted it: without the database of the set.
    let words: Vec<&str> = restoring.split(' ').take(5).collect();
    let older = format!("tdekit tsql 4\n{}\n", words.join(" "));
    for left in ["tdekit tsql 1\nrestoring\n", &older] {
        fs::write(served.data("d.db-tsql"), left).unwrap();
        refuses_the_other(c, "d", left);
        assert_eq!(restore(c, again), [0; 0], "{left}");
    }
    assert_eq!(restore(c, "DATABASE d WITH RECOVERY"), [0; 0]);
    assert_eq!(state(c, "d"), "ONLINE");
}
