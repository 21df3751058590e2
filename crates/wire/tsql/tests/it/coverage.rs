//! docs/tsql.md lists exactly what the code implements; anything else fails with an error.

use crate::common::{Server, rows};
use tdekit_wire_tsql::{check_syntax, coverage};

/// The words of a section's paragraph between `<!-- name -->` and `<!-- end -->`.
fn listed(document: &str, name: &str) -> Vec<String> {
    let start = document.split(&format!("<!-- {name} -->")).nth(1).unwrap();
    let section = start.split("<!-- end -->").next().unwrap();
    section.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_document_is_exact() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tsql.md");
    let document = std::fs::read_to_string(path).unwrap();
    let coverage = coverage();
    for (name, known) in [
        ("functions", coverage.functions),
        ("aggregates", coverage.aggregates),
        ("tables", coverage.tables),
        ("window", coverage.window),
        ("options", coverage.options),
        ("views", coverage.views),
        ("procedures", coverage.procedures),
    ] {
        let mut known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        known.sort();
        let mut found = listed(&document, name);
        found.sort();
        assert_eq!(found, known, "{name}");
    }
}

#[test]
fn listed_statements_parse_and_unlisted_ones_fail() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tsql.md");
    let document = std::fs::read_to_string(path).unwrap();
    for statement in listed(&document, "statements") {
        let result = check_syntax(&statement);
        assert!(result.is_ok(), "{statement}: {result:?}");
    }
    for statement in listed(&document, "refused") {
        let error = check_syntax(&statement).unwrap_err();
        let loud = matches!(error.number, 40517 | 40512 | 102 | 156 | 155 | 195);
        assert!(loud, "{statement}: {error:?}");
    }
}

#[test]
fn every_scalar_function_is_bound() {
    let server = Server::new();
    let mut session = server.session();
    for name in coverage().functions {
        if name.starts_with("@@") {
            let found = rows(&mut *session, &format!("SELECT {name}"));
            let is_null = found.contains("NULL") && name != "@@IDENTITY";
            assert!(!found.starts_with('!') && !is_null, "{name}: {found}");
            continue;
        }
        // no arguments are valid for all: only the known name matters
        let found = rows(&mut *session, &format!("SELECT {name}(1, 2, 3, 4, 5, 6, 7, 8)"));
        assert!(!found.starts_with("! 195/"), "{name}: {found}");
    }
    assert!(rows(&mut *session, "SELECT nosuch(1)").starts_with("! 195/15/10"));
}
