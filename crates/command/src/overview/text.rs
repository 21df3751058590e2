//! The overview on a terminal: a table, the findings of each row, and suggested commands.

use std::path::{Path, PathBuf};

use tdekit_console::{ConsoleError, Fit, output};
use time::OffsetDateTime;
use time::macros::format_description;

use super::cost::Cost;
use super::estate::{Backup, Estate, Row, Server, State};
use super::rules::{HISTORY, Level};

const HEADER: [(&str, Fit); 8] = [
    ("", Fit::Keep),
    ("DATABASE", Fit::Cut),
    ("STATE", Fit::Keep),
    ("KEY AGE", Fit::Drop(2)),
    ("CERT SAVED", Fit::Drop(3)),
    ("LAST BACKUP", Fit::Keep),
    ("VERIFIED", Fit::Drop(1)),
    ("COST", Fit::Drop(4)),
];
/// Maximum number of suggested commands.
const MAX_COMMANDS: usize = 5;
const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;

/// Prints an estate.
pub(crate) fn print(estate: &Estate, quiet: bool) -> Result<(), ConsoleError> {
    let root = common_root(&estate.looked_at);
    let shown = |level: Level| !quiet || level > Level::Good;
    let rows: Vec<&Row> = estate.databases.iter().filter(|row| shown(row.level)).collect();
    let servers: Vec<&Server> = estate.servers.iter().filter(|row| shown(row.level)).collect();
    let mut cells: Vec<_> =
        rows.iter().map(|row| cells_of(row, estate.at, root.as_deref())).collect();
    cells.extend(servers.iter().map(|server| cells_of_server(server, estate.at)));
    if !cells.is_empty() {
        output::fitted_table(&HEADER, cells)?;
        output::line("")?;
    }
    for row in &rows {
        let name = name_of(&row.path, root.as_deref());
        for finding in &row.findings {
            let message = output::single(&finding.message);
            output::line(format_args!("{} {name}: {message}", finding.level.mark()))?;
        }
    }
    for server in servers {
        for finding in &server.findings {
            let (mark, name) = (finding.level.mark(), server.data.as_deref().unwrap_or("MariaDB"));
            output::line(format_args!("{mark} {name}: {}", finding.message))?;
        }
    }
    for left in &estate.not_looked_at {
        output::line(format_args!("Not looked at: {}", output::single(left)))?;
    }
    let [good, warning, bad] = [Level::Good, Level::Warning, Level::Bad].map(|it| estate.count(it));
    output::line(format_args!("{good} in order, {warning} with something due, {bad} in danger."))?;
    let commands = commands(&rows);
    match commands.is_empty() {
        true => Ok(()),
        false => output::line(format_args!("Do: {}", commands.join("\n    "))),
    }
}

/// Returns the one directory that contains everything, to shorten names.
fn common_root(looked_at: &[PathBuf]) -> Option<PathBuf> {
    match looked_at {
        [one] if one.is_dir() => Some(one.clone()),
        _ => None,
    }
}

fn name_of(path: &Path, root: Option<&Path>) -> String {
    let short = root.and_then(|root| path.strip_prefix(root).ok());
    output::single(&short.unwrap_or(path).display().to_string()).into_owned()
}

fn cells_of(row: &Row, now: i64, root: Option<&Path>) -> Vec<String> {
    let none = || "-".to_owned();
    let state = match row.state {
        State::Encrypted => row.algorithm.clone().unwrap_or_default(),
        State::Plain => "PLAIN".to_owned(),
        State::Gone => "GONE".to_owned(),
        State::Unreadable => "UNREADABLE".to_owned(),
    };
    let saved = row.certificates_saved.map_or("-", |saved| if saved { "yes" } else { "NO" });
    let verified = match (row.verify_ok, row.last_verify_at) {
        (Some(false), _) => "DAMAGED".to_owned(),
        (_, Some(at)) => match row.last_restore_test_at {
            Some(restored) if restored + MINUTE_S >= at => format!("{}, restored", ago(now - at)),
            Some(restored) => format!("{}, restored {}", ago(now - at), ago(now - restored)),
            None => ago(now - at),
        },
        (_, None) => none(),
    };
    let unknown = row.findings.iter().any(|finding| finding.what == HISTORY);
    let no_backup = if unknown { "?" } else { "never" };
    vec![
        row.level.mark().to_owned(),
        name_of(&row.path, root),
        state,
        row.key_age_s.map_or_else(none, |age| format!("{} d", age.div_euclid(DAY_S))),
        saved.to_owned(),
        row.last_backup.as_ref().map_or(no_backup.to_owned(), |backup| backup_cell(backup, now)),
        verified,
        match (&row.cost, row.state) {
            (Some(cost), _) => cost_cell(cost),
            (None, State::Encrypted) => "?".to_owned(),
            (None, _) => none(),
        },
    ]
}

fn cells_of_server(server: &Server, now: i64) -> Vec<String> {
    let none = || "-".to_owned();
    let count = |name: &str| server.facts.as_ref().and_then(|facts| facts[name].as_u64());
    let state = match (count("encrypted"), count("tablespaces")) {
        (Some(encrypted), Some(all)) => format!("{encrypted} of {all} tablespaces"),
        _ => none(),
    };
    let keys = server.keys.iter().map(|(id, version)| format!("{id}.{version}"));
    vec![
        server.level.mark().to_owned(),
        format!("MariaDB {}", server.data.as_deref().unwrap_or("(not looked at)")),
        state,
        format!("keys {}", keys.collect::<Vec<_>>().join(" ")),
        none(),
        none(),
        server.last_verify_at.map_or_else(none, |at| ago(now - at)),
        none(),
    ]
}

fn backup_cell(backup: &Backup, now: i64) -> String {
    let kind = match (backup.full, backup.shipped, backup.encrypted) {
        (.., false) => ", not encrypted",
        (_, true, true) => " (shipped)",
        (true, false, true) => " (full)",
        (false, false, true) => " (differential)",
    };
    format!("{}{kind}", ago(now - backup.at))
}

/// Width of an interval, as a factor, up to which one that contains 0 is called `about 0 %`.
const NARROW: f64 = 1.05;
/// Width from which on an interval is of no use, as for the bench.
const WIDE: f64 = 10.0;

/// Formats a cost with its day, such as `+9 % (24 Nov)`; one that cannot be told from 0 is `?`,
/// unless its interval is narrow.
fn cost_cell(cost: &Cost) -> String {
    let day =
        OffsetDateTime::parse(&cost.measured_at, &time::format_description::well_known::Rfc3339)
            .ok()
            .and_then(|at| {
                at.format(format_description!("[day padding:none] [month repr:short]")).ok()
            })
            .unwrap_or_else(|| cost.measured_at.clone());
    let (zero, width) = ((cost.low..=cost.high).contains(&1.0), cost.high / cost.low);
    match zero {
        true if width <= NARROW => format!("about 0 % ({day})"),
        _ if zero || width > WIDE => format!("? ({day})"),
        _ => format!("{:+.0} % ({day})", (cost.ratio - 1.0) * 100.0),
    }
}

/// Formats a duration in its largest unit.
pub(crate) fn ago(seconds: i64) -> String {
    match seconds {
        _ if seconds < MINUTE_S => "now".to_owned(),
        _ if seconds < HOUR_S => format!("{} min", seconds / MINUTE_S),
        _ if seconds <= 2 * DAY_S => format!("{} h", seconds / HOUR_S),
        _ => format!("{} d", seconds / DAY_S),
    }
}

/// Returns the suggested commands, those for the worst rows first.
pub(crate) fn commands(rows: &[&Row]) -> Vec<String> {
    let mut rows: Vec<_> = rows.iter().filter(|row| row.level > Level::Good).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.level));
    let mut all = Vec::new();
    for row in rows {
        let path = output::shell_path(&row.path);
        for finding in &row.findings {
            all.push(match finding.what {
                "plain" => format!("tdekit encrypt {path} --certificate NAME"),
                "lost" => {
                    let known = output::shell_path(&row.resolved);
                    let restore = format!("tdekit restore MEDIA --database {known} --to {path}");
                    match row.path.symlink_metadata() {
                        Ok(_) => restore,
                        Err(_) => format!(
                            "{restore}, or, if it was removed on purpose, \
                                           tdekit cert forget {path}"
                        ),
                    }
                }
                "key-age" | "key-change" => format!("tdekit rotate {path}"),
                "certificate-not-backed-up" => "tdekit cert backup NAME --pkcs12 FILE".to_owned(),
                "replicate-failed" => format!("tdekit replicate status {path}"),
                "backup-missing" | "backup-age" | "backup-plain" if row.state != State::Gone => {
                    format!("tdekit backup {path} --to MEDIA --certificate NAME")
                }
                "verify-missing" | "verify-age" | "verify-failed" => {
                    "tdekit verify MEDIA".to_owned()
                }
                "doctor" | "header" => format!("tdekit doctor {path}"),
                _ => continue,
            });
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|command| seen.insert(command.clone()));
    let left = all.len().saturating_sub(MAX_COMMANDS);
    all.truncate(MAX_COMMANDS);
    if left > 0 {
        all.push(format!("and {left} more; --json names what is wrong with each"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_one_unit() {
        for (seconds, told) in [
            (-5, "now"),
            (59, "now"),
            (60, "1 min"),
            (3599, "59 min"),
            (7200, "2 h"),
            (172_800, "48 h"),
            (172_801, "2 d"),
            (401 * DAY_S, "401 d"),
        ] {
            assert_eq!(ago(seconds), told, "{seconds}");
        }
    }

    #[test]
    fn costs_say_when_they_cannot_be_told_from_zero() {
        let cost = |ratio, low, high| Cost {
            ratio,
            low,
            high,
            measured_at: "2026-11-24T10:00:00Z".to_owned(),
        };
        assert_eq!(cost_cell(&cost(1.09, 1.02, 1.15)), "+9 % (24 Nov)");
        assert_eq!(cost_cell(&cost(0.93, 0.90, 0.97)), "-7 % (24 Nov)");
        assert_eq!(cost_cell(&cost(1.09, 0.97, 1.15)), "? (24 Nov)");
        assert_eq!(cost_cell(&cost(1.002, 0.99, 1.01)), "about 0 % (24 Nov)");
        assert_eq!(cost_cell(&cost(3.0, 1.2, 45.0)), "? (24 Nov)");
    }
}
