//! The overview on a terminal: a table, the findings of each row, and suggested commands.

use std::path::{Path, PathBuf};

use tdekit_console::{ConsoleError, Fit, output};
use time::OffsetDateTime;
use time::macros::format_description;

use super::cost::Cost;
use super::estate::{Backup, Estate, Row, State};
use super::rules::{HISTORY, Level};
use super::servers::Server;

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
    for server in &servers {
        for finding in &server.findings {
            let (mark, name) = (finding.level.mark(), server.data.as_deref().unwrap_or("MariaDB"));
            let message = output::single(&finding.message);
            output::line(format_args!("{mark} {name}: {message}"))?;
        }
    }
    for left in &estate.not_looked_at {
        output::line(format_args!("Not looked at: {}", output::single(left)))?;
    }
    let [good, warning, bad] = [Level::Good, Level::Warning, Level::Bad].map(|it| estate.count(it));
    output::line(format_args!("{good} in order, {warning} with something due, {bad} in danger."))?;
    let commands = commands(estate, &rows, &servers);
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
    let short = short.filter(|short| !short.as_os_str().is_empty());
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
    let saved = match (row.certificates_saved, row.state) {
        (Some(true), _) => "yes",
        (Some(false), _) => "NO",
        (None, State::Encrypted) => "?",
        (None, _) => "-",
    };
    let verified = match (row.verify_ok, row.last_verify_at) {
        (Some(false), _) if row.absent => "ABSENT".to_owned(),
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
        match (server.verify_ok, server.last_verify_at) {
            (Some(false), _) => "DAMAGED".to_owned(),
            (_, at) => at.map_or_else(none, |at| ago(now - at)),
        },
        none(),
    ]
}

fn backup_cell(backup: &Backup, now: i64) -> String {
    let kind = match (backup.encrypted, backup.shipped) {
        (false, _) => ", not encrypted",
        (true, true) => " (shipped)",
        (true, false) if backup.full => " (full)",
        (true, false) if backup.log => " (log)",
        (true, false) => " (differential)",
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
pub(crate) fn commands(estate: &Estate, rows: &[&Row], servers: &[&Server]) -> Vec<String> {
    let mut rows: Vec<_> = rows.iter().filter(|row| row.level > Level::Good).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.level));
    let of_rows = rows.iter().flat_map(|row| {
        row.findings.iter().flat_map(|finding| commands_of(estate, row, finding.what))
    });
    let of_servers = servers.iter().flat_map(|server| {
        server.findings.iter().filter_map(|finding| command_of_server(server, finding.what))
    });
    let mut all: Vec<String> = of_rows.chain(of_servers).collect();
    let mut seen = std::collections::HashSet::new();
    all.retain(|command| seen.insert(command.clone()));
    let left = all.len().saturating_sub(MAX_COMMANDS);
    all.truncate(MAX_COMMANDS);
    if left > 0 {
        all.push(format!("# and {left} more; --json names what is wrong with each"));
    }
    all
}

/// Returns the commands that mend a finding. Words in capitals are not known here.
fn commands_of(estate: &Estate, row: &Row, what: &str) -> Vec<String> {
    let path = output::shell_path(&row.path);
    let one = match what {
        "plain" if !estate.has_store => format!("tdekit init {path}"),
        "plain" => format!("tdekit encrypt {path} --certificate {}", certificate(estate, row)),
        "lost" => return commands_of_lost(row, &path),
        "key-age" | "key-change" => format!("tdekit rotate {path}"),
        "certificate-not-backed-up" => {
            let unsaved = row.certificates.iter().filter(|(_, is_saved)| !is_saved);
            let backup = |(name, _): &(String, bool)| cert_backup(&output::shell_word(name));
            let all: Vec<_> = unsaved.map(backup).collect();
            return if all.is_empty() { vec![cert_backup("NAME")] } else { all };
        }
        "replicate-failed" | "replicate-stopped" => format!("tdekit replicate status {path}"),
        // Of what stands in the place of a lost one there is nothing to keep.
        "backup-missing" | "backup-age" | "backup-plain" if !row.has("lost") => {
            let name = certificate(estate, row);
            format!("tdekit backup {path} --to MEDIA --certificate {name}")
        }
        "verify-missing" | "verify-age" | "verify-failed" | "verify-absent" | "archive-wrong" => {
            "tdekit verify MEDIA".to_owned()
        }
        "doctor" | "header" => format!("tdekit doctor {path}"),
        _ => return Vec::new(),
    };
    vec![one]
}

/// A database that is gone was lost, or removed on purpose.
fn commands_of_lost(row: &Row, path: &str) -> Vec<String> {
    let known = output::shell_path(&row.resolved);
    let mut all = Vec::new();
    if row.path.is_symlink() {
        all.push(format!("rm {path}    # a link, and not the database"));
    }
    if row.last_backup.is_some() {
        all.push(format!("tdekit restore MEDIA --database {known} --to {path}"));
    }
    if row.path.symlink_metadata().is_err() {
        all.push(format!("tdekit cert forget {path}    # if it was removed on purpose"));
    }
    all
}

fn command_of_server(server: &Server, what: &str) -> Option<String> {
    match what {
        "certificate-not-backed-up" => Some(cert_backup("NAME")),
        "verify-missing" | "verify-age" | "verify-failed" => Some(match &server.data {
            Some(data) => {
                format!("tdekit mariadb verify --datadir {}", output::shell_path(data.as_ref()))
            }
            None => "tdekit mariadb verify".to_owned(),
        }),
        _ => None,
    }
}

fn cert_backup(name: &str) -> String {
    format!("tdekit cert backup {name} --pkcs12 FILE")
}

/// Returns the name of a row's certificate, or that of the only one there is.
fn certificate(estate: &Estate, row: &Row) -> String {
    let mut active = estate.certificates.iter().filter(|one| one.active).map(|one| &one.name);
    let only = active.next().filter(|_| active.next().is_none());
    let name = row.certificates.first().map(|(name, _)| name).or(only);
    name.map_or_else(|| "NAME".to_owned(), output::shell_word)
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
