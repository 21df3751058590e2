//! Every statement of a run on an existing MySQL server, for review; nothing is sent.

use super::client::MYSQL_LOGS;
use super::home;
use super::remote::{VERSION, announcement};
use super::swap::{ASIDE, Clause, TableSet};
use super::tls::STATUS;
use crate::plan::Config;
use crate::plan::{OltpPlan, OltpTarget};
use crate::sql_text::Text;
use tdekit_bench_work::Workload;

/// In place of the run's own 16 digits.
const DIGITS: &str = "0123456789abcdef";

/// Returns the run as SQL. Empty if the target is not a MySQL server.
pub(crate) fn dry_run(config: &Config) -> String {
    let plan = &config.oltp;
    let OltpTarget::Server(url) = &plan.target else { return String::new() };
    let tables = plan.tables;
    let database = format!("{ASIDE}{DIGITS}");
    let mut script = Text::default();
    script.comment(&announcement(plan, url));
    script.part("What the server is");
    script.statement(VERSION);
    script.statement(STATUS);
    script.statement("SELECT @@max_connections");
    MYSQL_LOGS.iter().for_each(|(name, _)| script.statement(&format!("SELECT @@{name}")));
    script.part("A database of the run's own; the digits are random");
    script.statement(&home::create(&database));
    script.comment(&format!("where that is refused, in {}:", url.database));
    script.statement(&home::taken());
    script.part(
        "Whether it makes encrypted tables beside plain ones: the first of these that it can",
    );
    for clause in Clause::ALL {
        script.statement(&clause.probe(true));
        script.statement(&clause.probe(false));
    }
    script.part("In each restart anew; filled by sysbench, sets in random order");
    script.statement(&TableSet::drop_all(tables));
    let second = if plan.control { TableSet::Control } else { TableSet::Encrypted };
    for set in [TableSet::Plain, second] {
        filling(&mut script, plan);
        for clause in Clause::ALL {
            script.comment(&format!("where it takes {}:", clause.option(true)));
            set.alter(tables, clause).lines().for_each(|line| script.line(line));
            script.statement(&clause.look(&set.names(tables), &database));
        }
        script.statement(&set.put_aside(tables));
    }
    script.part("A block, of each set in random order; by sysbench, on random tables and rows");
    script.statement(&TableSet::Plain.bring_back(tables));
    for workload in &plan.workloads {
        let threads: Vec<String> = plan.threads.iter().map(u32::to_string).collect();
        let what = format!("{}, by {} threads:", workload.name(), threads.join(", "));
        script.comment(&what);
        statements(*workload).into_iter().for_each(|sql| script.statement(sql));
    }
    script.statement(&TableSet::Plain.put_aside(tables));
    script.part("The end, after failures and Ctrl-C too");
    script.statement(&home::drop_database(&database));
    script.comment("where there is none of the run's own:");
    script.statement(&TableSet::drop_all(tables));
    script.finish()
}

fn filling(script: &mut Text, plan: &OltpPlan) {
    for table in 1..=plan.tables {
        script.statement(&format!("CREATE TABLE sbtest{table}({COLUMNS}) ENGINE = innodb"));
        script.line(format!(
            "INSERT INTO sbtest{table}(k, c, pad) VALUES (...); -- {} rows, many at a time",
            plan.rows
        ));
        script.statement(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"));
    }
}

/// As created by sysbench 1.0.
const COLUMNS: &str = "id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
                       c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, \
                       PRIMARY KEY (id)";
const BEGIN: &str = "BEGIN";
const COMMIT: &str = "COMMIT";
const POINT: &str = "SELECT c FROM sbtest1 WHERE id=?";
const RANGES: [&str; 4] = [
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
    "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
];
const UPDATE_INDEX: &str = "UPDATE sbtest1 SET k=k+1 WHERE id=?";
const UPDATE_NON_INDEX: &str = "UPDATE sbtest1 SET c=? WHERE id=?";
const DELETE: &str = "DELETE FROM sbtest1 WHERE id=?";
const INSERT: &str = "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)";

/// Returns sysbench's statements of a transaction; repeated ones once.
fn statements(workload: Workload) -> Vec<&'static str> {
    let reads = || std::iter::once(POINT).chain(RANGES);
    let writes = [UPDATE_INDEX, UPDATE_NON_INDEX, DELETE, INSERT];
    let within = |statements: Vec<&'static str>| {
        std::iter::once(BEGIN).chain(statements).chain([COMMIT]).collect()
    };
    match workload {
        Workload::PointSelect => vec![POINT],
        Workload::ReadOnly => within(reads().collect()),
        Workload::ReadWrite => within(reads().chain(writes).collect()),
        Workload::WriteOnly => within(writes.to_vec()),
        Workload::UpdateIndex => vec![UPDATE_INDEX],
        Workload::UpdateNonIndex => vec![UPDATE_NON_INDEX],
        Workload::Insert => vec!["INSERT INTO sbtest1 (k, c, pad) VALUES (...)"],
        Workload::Delete => vec![DELETE],
        // Refused on an existing server.
        Workload::FullScan => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::config_of;

    #[test]
    fn every_statement_is_printed_and_no_password() {
        let words = "--target mysql://me:secret@h/app --dry-run --workload \
                     oltp_read_write,oltp_delete --tables 2 --rows 50";
        let config = config_of(&words.split(' ').collect::<Vec<_>>()).unwrap();
        let text = dry_run(&config);
        for wanted in [
            "-- On mysql://me@h:3306/app the run makes",
            "CREATE DATABASE `tdekit_bench_0123456789abcdef`;",
            "CREATE TABLE tdekit_bench_probe(a INT) ENGINE=InnoDB ENCRYPTION='Y';",
            "CREATE TABLE sbtest2(id INTEGER NOT NULL AUTO_INCREMENT",
            "-- 50 rows",
            "ALTER TABLE sbtest1 ENCRYPTED=YES;",
            "RENAME TABLE `sbtest1` TO `tdekit_bench_encrypted_1`",
            "UPDATE sbtest1 SET k=k+1 WHERE id=?;",
            "DROP DATABASE `tdekit_bench_0123456789abcdef`;",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing");
        }
        assert!(!text.contains("secret"));
        assert!(text.rfind("CREATE").unwrap() < text.rfind("DROP DATABASE").unwrap());
    }
}
