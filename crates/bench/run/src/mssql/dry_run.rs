//! Every statement of a run, for review; nothing is sent.

use super::backup::{ciphers, groups};
use super::data::{self, sums};
use super::home::announcement;
use super::names::{
    self, BACKUP, COLD, CREATE_CERTIFICATE, DROP_CERTIFICATE, DROP_MASTER_KEY, Database, ENCRYPT,
    FACTS, FILES, LEAVE, MASTER_KEYS, OTHERS, PAGES, ROOM, SESSION, STATES,
};
use super::operations::{all, undo};
use crate::job::Operation;
use crate::plan::Config;
use crate::sql_text::Text;

/// Returns the run as T-SQL, batches separated by GO.
pub(crate) fn dry_run(config: &Config) -> String {
    let mut script = Text::default();
    script.comment(&announcement(config, "the server", config.mssql.at_a_time()));
    let databases = Database::of_run(config);
    script.part("What the server is, and whether the names are free");
    let tags = names::query_stats("RUN");
    let asked = [names::taken_databases(), names::taken_certificate(), ROOM.to_owned()];
    script.batches([FACTS.to_owned(), SESSION.to_owned(), tags.clone()].into_iter().chain(asked));
    if !config.given.basics.aa {
        script.part("Keys; the master key only where there is none");
        script.batches([LEAVE.to_owned(), MASTER_KEYS.to_owned()]);
        script.batches([names::create_master_key("RANDOM"), CREATE_CERTIFICATE.to_owned()]);
    }
    for &database in &databases {
        script.part("A database, in each restart anew");
        script.batches([database.create(), database.r#use()]);
        let mixes = (config.mixes.as_slice(), config.given.think_time.0);
        script.batches(data::statements(config.rows, 1, mixes));
        if database == Database::Encrypted {
            let key = names::create_database_key(config.given.basics.algorithm());
            script.batches([key, LEAVE.to_owned(), ENCRYPT.to_owned(), STATES.to_owned()]);
        }
        script.batches([database.is_encrypted()]);
        if database == Database::Base {
            script.batches(PAGES.map(str::to_owned));
        }
    }
    if config.experiments.operations {
        operations(&mut script, config, &databases, &tags);
    }
    if config.experiments.crud {
        script.part("Mixes, on several connections at once");
        script.batches([
            "EXEC dbo.ReadCard 1, 7".to_owned(),
            "EXEC dbo.UpdateVendor 1, 7, N'x', N'01234', 1250000000".to_owned(),
            "EXEC dbo.InsertPurchase 1, 1000, 7, 7, 100, 1250000000".to_owned(),
            data::Row::new(&mut fastrand::Rng::with_seed(1), 10).load(1, 1000),
            SESSION.to_owned(),
        ]);
    }
    if config.experiments.backup {
        script.part("Backups, each checked");
        backups(&mut script, config);
    }
    end(&mut script, config, &databases);
    script.finish()
}

/// Files as SQL Server names them, and their paths after a restore.
const MOVES: [(&str, &str); 2] = [
    ("tdekit_bench_base", "DIRECTORY/tdekit_bench_restored.mdf"),
    ("tdekit_bench_base_log", "DIRECTORY/tdekit_bench_restored_log.ldf"),
];

fn operations(script: &mut Text, config: &Config, databases: &[Database], tags: &str) {
    script.part("Operations, each between two readings of the counters");
    if !config.mssql.bounds.warm_only {
        script.part("Before each statement of the cold classes:");
        script.batches(COLD.map(str::to_owned));
    }
    for one in all() {
        script.batches([one.batch(&one.tag("RUN", "base"), (7, 9))]);
    }
    script.batches([tags.to_owned()]);
    script.part("What they changed is taken back");
    for operation in Operation::ALL {
        script.batches(undo(operation));
    }
    script.part("Full backups");
    for database in databases {
        for path in config.mssql.bounds.backup_files(database.name()).iter().take(1) {
            let of = |compressed| names::backup(*database, path, compressed, None);
            script.batches([of(true), of(false)]);
        }
    }
}

fn backups(script: &mut Text, config: &Config) {
    let ciphers = if config.given.basics.aa { Vec::new() } else { ciphers(config) };
    let names = ciphers.iter().map(|cipher| Some(cipher.as_str()));
    let names: Vec<Option<&str>> = std::iter::once(None).chain(names).collect();
    let moves = MOVES.map(|(file, to)| (file.to_owned(), to.to_owned()));
    script.comment(
        "Where the server is not tdekit serve, it is asked for the files, which a restore \
         moves to names of their own beside them:",
    );
    script.batches([FILES.to_owned(), sums(Database::Base.name())]);
    for group in groups(config) {
        for cipher in &names {
            script.batches([group.backup(*cipher), names::history(Database::Base)]);
            script.batches([group.verify(), group.restore(&moves)]);
            script.batches([sums(Database::Restored.name()), Database::Restored.drop()]);
        }
    }
}

fn end(script: &mut Text, config: &Config, databases: &[Database]) {
    script.part("The end, after failures and Ctrl-C too");
    script.batches([LEAVE.to_owned(), OTHERS.to_owned()]);
    let restored = config.experiments.backup.then_some(Database::Restored);
    let databases: Vec<Database> = databases.iter().copied().chain(restored).collect();
    for database in databases.iter().rev() {
        script.batches([database.drop(), database.forget_history()]);
    }
    script.comment("before a DROP DATABASE that is refused since it is in use (3702):");
    script.batches(databases.iter().map(|database| database.take()));
    let matrix = config.experiments.backup.then_some(BACKUP);
    let own = databases.iter().map(|database| database.name());
    let own = own.filter(|_| config.experiments.operations);
    for name in own.chain(matrix) {
        let files = config.mssql.bounds.backup_files(name).into_iter();
        script.batches(files.map(|path| names::delete_file(&path)));
    }
    if !config.given.basics.aa {
        script.batches([DROP_CERTIFICATE.to_owned()]);
        script.comment("only where the run made it:");
        script.batches([DROP_MASTER_KEY.to_owned()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::config_of;

    #[test]
    fn every_statement_is_printed_and_no_password() {
        let words = "--target mssql://sa:secret@h --dry-run --experiment operations --experiment \
                     crud --experiment backup --rows 2000";
        let config = config_of(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let text = dry_run(&config);
        for wanted in [
            "CREATE DATABASE tdekit_bench_base;",
            "SET ENCRYPTION ON;",
            "DBCC DROPCLEANBUFFERS;",
            "ALTER INDEX ALL ON dbo.Card REBUILD;",
            "ALGORITHM = TRIPLE_DES_3KEY",
            "RESTORE VERIFYONLY",
            "RESTORE DATABASE tdekit_bench_restored FROM DISK",
            "DROP DATABASE tdekit_bench_restored;",
            "DROP DATABASE tdekit_bench_encrypted;",
            "DROP MASTER KEY;",
            "SET SINGLE_USER WITH ROLLBACK IMMEDIATE;",
            "FROM sys.database_files;",
            "tdekit_bench_certificate",
            "tempdb",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing");
        }
        assert!(!text.contains("secret"));
        let words = "--target mssql://sa:secret@h --dry-run --experiment backup --rows 2000";
        let config = config_of(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let backups = dry_run(&config);
        assert!(backups.contains("RESTORE DATABASE") && backups.contains("CREATE CERTIFICATE"));
        assert!(!backups.contains("DATABASE tdekit_bench_encrypted"));
        let dropped = text.rfind("DROP DATABASE").unwrap();
        assert!(text.find("CREATE DATABASE").unwrap() < dropped);
        assert!(dropped < text.rfind("DROP CERTIFICATE").unwrap());
    }
}
