//! Two sets of sysbench's tables in one database: sysbench only uses the names `sbtest1` and so on,
//! so a set is renamed to these while it is measured.

/// The engine, which determines the syntax for encrypted and plain tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clause {
    MariaDb,
    MySql,
}

impl Clause {
    pub(super) const ALL: [Self; 2] = [Self::MariaDb, Self::MySql];

    /// Returns the engine's name.
    pub(super) fn engine(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        }
    }

    /// Returns the option of `CREATE TABLE` and `ALTER TABLE`.
    pub(super) fn option(self, encrypted: bool) -> &'static str {
        match (self, encrypted) {
            (Self::MariaDb, true) => "ENCRYPTED=YES",
            (Self::MariaDb, false) => "ENCRYPTED=NO",
            (Self::MySql, true) => "ENCRYPTION='Y'",
            (Self::MySql, false) => "ENCRYPTION='N'",
        }
    }

    /// Returns the statement that counts the encrypted ones among these tables.
    pub(super) fn look(self, tables: &[String], database: &str) -> String {
        // In the server's encoding of file names.
        let database = database.replace('-', "@002d").replace('$', "@0024");
        let mut names: Vec<String> =
            tables.iter().map(|table| format!("'{database}/{table}'")).collect();
        names.push("''".to_owned());
        let (table, is_encrypted) = match self {
            Self::MariaDb => ("innodb_tablespaces_encryption", "MIN_KEY_VERSION > 0"),
            Self::MySql => ("innodb_tablespaces", "ENCRYPTION = 'Y'"),
        };
        format!(
            "SELECT COUNT(*) FROM information_schema.{table} WHERE NAME IN ({}) AND {is_encrypted}",
            names.join(", ")
        )
    }
}

/// A set of tables that is kept under separate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableSet {
    Plain,
    /// Plain again, in place of the encrypted set: `--aa`.
    Control,
    Encrypted,
}

/// Prefix of the names of inactive tables.
pub(super) const ASIDE: &str = "tdekit_bench_";

impl TableSet {
    /// Returns the inactive names of `tables` tables of this set.
    pub(super) fn names(self, tables: u32) -> Vec<String> {
        (1..=tables).map(|table| self.aside(table)).collect()
    }

    fn aside(self, table: u32) -> String {
        let kind = match self {
            Self::Plain => "plain",
            Self::Control => "control",
            Self::Encrypted => "encrypted",
        };
        format!("{ASIDE}{kind}_{table}")
    }

    /// Returns the statement that renames `sbtest1..=tables` to this set's names.
    pub(super) fn put_aside(self, tables: u32) -> String {
        rename(tables, |table| (format!("sbtest{table}"), self.aside(table)))
    }

    /// Returns the statement that renames this set back to sysbench's names.
    pub(super) fn bring_back(self, tables: u32) -> String {
        rename(tables, |table| (self.aside(table), format!("sbtest{table}")))
    }

    /// Returns the statements that give `sbtest1..=tables` this set's encryption.
    pub(super) fn alter(self, tables: u32, clause: Clause) -> String {
        let option = clause.option(self == Self::Encrypted);
        (1..=tables).map(|table| format!("ALTER TABLE sbtest{table} {option};\n")).collect()
    }

    /// Returns the statement that drops every table of a run, whatever its current name.
    pub(super) fn drop_all(tables: u32) -> String {
        let names: Vec<String> = (1..=tables)
            .flat_map(|table| {
                let sets = [Self::Plain, Self::Control, Self::Encrypted];
                let aside = sets.map(|set| set.aside(table));
                [format!("sbtest{table}")].into_iter().chain(aside)
            })
            .map(|name| format!("`{name}`"))
            .collect();
        format!("DROP TABLE IF EXISTS {}", names.join(", "))
    }
}

fn rename(tables: u32, names: impl Fn(u32) -> (String, String)) -> String {
    let one = |(from, to)| format!("`{from}` TO `{to}`");
    let all: Vec<String> = (1..=tables).map(names).map(one).collect();
    format!("RENAME TABLE {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_goes_aside_and_comes_back() {
        assert_eq!(
            TableSet::Plain.put_aside(2),
            "RENAME TABLE `sbtest1` TO `tdekit_bench_plain_1`, \
             `sbtest2` TO `tdekit_bench_plain_2`"
        );
        assert_eq!(
            TableSet::Encrypted.bring_back(1),
            "RENAME TABLE `tdekit_bench_encrypted_1` TO `sbtest1`"
        );
        let altered = |set: TableSet, clause| set.alter(1, clause);
        assert_eq!(
            altered(TableSet::Encrypted, Clause::MariaDb),
            "ALTER TABLE sbtest1 ENCRYPTED=YES;\n"
        );
        assert_eq!(
            altered(TableSet::Plain, Clause::MySql),
            "ALTER TABLE sbtest1 ENCRYPTION='N';\n"
        );
        assert_eq!(TableSet::drop_all(1).matches('`').count(), 8);
    }
}
