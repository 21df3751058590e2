//! The overview as evidence for an auditor: one file, without scripts, that prints on A4.

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tdekit_console::output;
use tdekit_key_store::iso8601;

use super::estate::{Estate, Row, State};
use super::rules::{Finding, Level};
use super::servers::Server;
use super::text::ago;

const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --edge: #8886; --bad: #b3261e;
  --warning: #8a5a00; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e8e8e8;
  --bad: #ff8a80; --warning: #ffca6b; } }
html { background: var(--paper); color: var(--ink); }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--edge);
  vertical-align: top; }
th { white-space: nowrap; } td.path { min-width: 12rem; overflow-wrap: anywhere; }
.bad { color: var(--bad); } .warning { color: var(--warning); }
@page { size: A4; margin: 14mm; }
@media print { body { font-size: 9.5pt; margin: 0; max-width: none; } .wide { overflow: visible; }
  table { font-size: 8pt; } th { white-space: normal; } td.path { min-width: 0; }
  th, td { padding: .2rem .3rem; } tr { break-inside: avoid; }
  thead { display: table-header-group; } }
";

/// Beginning of each page.
pub(crate) const BEGIN: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"generator\" content=\"tdekit overview\">";

/// Returns the page.
pub(crate) fn of(estate: &Estate, host: &str, program: &str) -> String {
    let title = format!("Encryption of databases on {host}");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content="tdekit overview";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (verdict(estate))
                    (about(estate, program))
                    (databases(estate))
                    (servers(estate))
                    (findings(estate))
                    (certificates(estate))
                }
            }
        }
    }
    .into_string()
}

fn verdict(estate: &Estate) -> Markup {
    let count = |state| estate.databases.iter().filter(|row| row.state == state).count();
    let all = estate.databases.len();
    html! {
        p {
            strong { (count(State::Encrypted)) " of " (all) " databases are encrypted." }
            " " (count(State::Plain)) " in the clear, " (count(State::Gone)) " lost, "
            (count(State::Unreadable)) " could not be read. "
            (estate.count(Level::Bad)) " in danger, " (estate.count(Level::Warning))
            " with something due."
        }
    }
}

fn about(estate: &Estate, program: &str) -> Markup {
    let rules = &estate.rules;
    html! {
        h2 { "What was looked at" }
        ul {
            li { "At " (iso8601(estate.at)) ", by " (program) ", without a key: headers, the key \
                  store's list, the backup history and the last examinations." }
            @for path in &estate.looked_at { li { code { (name(path)) } } }
            li { "A key may be " (rules.max_key_age) " old, a backup " (rules.max_backup_age)
                 ", its verification " (rules.max_verify_age) "." }
            @for left in &estate.not_looked_at { li.bad { "Not looked at: " (left) } }
            li { "Not looked at here: the pages of the databases (" code { "tdekit doctor" }
                 "), backups that the history does not know, and what runs on other machines." }
        }
    }
}

fn databases(estate: &Estate) -> Markup {
    html! {
        h2 { "Databases" }
        div.wide tabindex="0" role="region" aria-label="Databases" {
            table {
                thead { tr {
                    @for name in ["Mark", "Database", "State", "Key age", "Certificates saved",
                        "Last backup", "Verified", "Examined"] { th scope="col" { (name) } }
                } }
                tbody { @for row in &estate.databases { (database(row, estate.at)) } }
            }
        }
    }
}

fn database(row: &Row, now: i64) -> Markup {
    let since = |at: Option<i64>| at.map_or("-".to_owned(), |at| ago(now - at));
    let state = match row.state {
        State::Encrypted => row.algorithm.as_deref().unwrap_or("encrypted"),
        State::Plain => "in the clear",
        State::Gone => "lost",
        State::Unreadable => "unreadable",
    };
    html! {
        tr {
            td class=(class(row.level)) { (row.level.mark()) }
            td.path { (name(&row.path)) }
            td { (state) }
            td { (row.key_age_s.map_or("-".to_owned(), |age| format!("{} d", age / 86_400))) }
            td { (saved(row)) }
            td { (since(row.last_backup.as_ref().map(|backup| backup.at))) }
            td { @if row.absent { "absent" } @else if row.verify_ok == Some(false) { "damaged" }
                 @else { (since(row.last_verify_at)) } }
            td { (since(row.last_examined_at)) }
        }
    }
}

fn saved(row: &Row) -> &'static str {
    match (row.certificates_saved, row.state) {
        (Some(true), _) => "yes",
        (Some(false), _) => "no",
        (None, State::Encrypted) => "not known",
        (None, _) => "-",
    }
}

/// Returns a path on one line, as a shell reads it: no two look the same.
fn name(path: &Path) -> String {
    output::shell_word(path)
}

fn servers(estate: &Estate) -> Markup {
    html! {
        @if !estate.servers.is_empty() {
            h2 { "MariaDB" }
            ul { @for server in &estate.servers { li { (server_line(server, estate.at)) } } }
        }
    }
}

fn server_line(server: &Server, now: i64) -> Markup {
    let count = |name: &str| server.facts.as_ref().and_then(|facts| facts[name].as_u64());
    html! {
        (server.level.mark()) " "
        @match &server.data { Some(data) => { code { (data) } }, None => { "a server" } }
        @if let (Some(encrypted), Some(all)) = (count("encrypted"), count("tablespaces")) {
            ": " (encrypted) " of " (all) " tablespaces encrypted"
        }
        ", key versions in the store: "
        @for (id, version) in &server.keys { (id) "." (version) " " }
        @match server.last_verify_at {
            Some(at) => {
                "verified: " (ago(now - at))
                @if server.verify_ok == Some(false) { ", damaged" }
            },
            None => { "never verified" },
        }
    }
}

fn findings(estate: &Estate) -> Markup {
    let of_servers = estate.servers.iter().map(|server| {
        (server.data.clone().unwrap_or_else(|| "MariaDB".to_owned()), &server.findings)
    });
    let all: Vec<(String, &Vec<Finding>)> = estate
        .databases
        .iter()
        .map(|row| (name(&row.path), &row.findings))
        .chain(of_servers)
        .filter(|(_, findings)| !findings.is_empty())
        .collect();
    html! {
        h2 { "Findings" }
        @if all.is_empty() { p { "None." } }
        @for (name, findings) in all {
            p { code { (name) } }
            ul { @for one in findings {
                li class=(class(one.level)) { (one.message) " (" (one.what) ")" }
            } }
        }
    }
}

fn certificates(estate: &Estate) -> Markup {
    html! {
        @if !estate.certificates.is_empty() {
            h2 { "Certificates" }
            div.wide tabindex="0" role="region" aria-label="Certificates" { table {
                thead { tr { @for name in ["Name", "SHA-1", "In use for new keys", "In a backup",
                    "Ends"] { th scope="col" { (name) } } } }
                tbody { @for one in &estate.certificates { tr {
                    td { (one.name) }
                    td.path { (one.thumbprint) }
                    td { (if one.active { "yes" } else { "no" }) }
                    td { (if one.saved { "yes" } else { "no" }) }
                    td { (iso8601(one.not_after)) }
                } } }
            } }
        }
    }
}

fn class(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Warning => "warning",
        Level::Bad => "bad",
    }
}
