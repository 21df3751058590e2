//! ALTER TABLE ADD and DROP of constraints: existing rows are kept, and a constraint that they
//! violate is refused.

use crate::common::{Server, rows};
use tdekit_wire_tds::Session;

const TABLES: &[&str] = &[
    "CREATE TABLE u (i int NOT NULL CONSTRAINT pk_u PRIMARY KEY, name varchar(10) NOT NULL, \
     CONSTRAINT uq_u UNIQUE (name), CONSTRAINT later UNIQUE (name, i))",
    "CREATE TABLE t (id int IDENTITY(5, 2) NOT NULL, a int NOT NULL, b int NULL, \
     c varchar(10) NULL CONSTRAINT df_c DEFAULT 'none')",
    "CREATE INDEX ix_t ON t (b DESC)",
    "CREATE VIEW v AS SELECT a, b FROM t",
    "INSERT u VALUES (1, 'one'), (2, 'two')",
    "INSERT t (a, b) VALUES (1, 1), (2, NULL), (3, 2)",
];

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    for batch in TABLES {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    session
}

pub(crate) fn good(session: &mut dyn Session, cases: &[(&str, &str)]) {
    for (batch, expected) in cases {
        assert_eq!(rows(session, batch), *expected, "{batch}");
    }
}

pub(crate) fn bad(session: &mut dyn Session, cases: &[(&str, &str)]) {
    for (batch, codes) in cases {
        let found = rows(session, batch);
        let told: Vec<_> = found.lines().map(|line| line.split(" line").next().unwrap()).collect();
        let codes: Vec<_> = codes.split(' ').map(|code| format!("! {code}")).collect();
        assert_eq!(told, codes, "{batch}: {found}");
    }
}

/// Runs the integrity check of the file.
pub(crate) fn healthy(server: &Server) {
    let path = server.directory.path().join("app.db");
    let file = rusqlite::Connection::open(path).unwrap();
    let compare = |a: &str, b: &str| a.trim_end().to_lowercase().cmp(&b.trim_end().to_lowercase());
    file.create_collation("TSQL", compare).unwrap();
    for check in ["integrity_check", "foreign_key_check"] {
        let found: Option<String> =
            file.query_row(&format!("PRAGMA {check}"), [], |row| row.get(0)).ok();
        assert!(found.as_deref().is_none_or(|found| found == "ok"), "{check}: {found:?}");
    }
}

const CONSTRAINTS: &str = "SELECT name, type FROM sys.objects WHERE parent_object_id = \
    OBJECT_ID('t') ORDER BY name";

#[test]
fn a_check_is_added_and_dropped() {
    let server = Server::new();
    let mut session = made(&server);
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT k CHECK (a > 1)", "547/16/0"),
            ("ALTER TABLE t ADD CONSTRAINT k CHECK (nix > 1)", "207/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT df_c CHECK (a > 0)", "2714/16/6 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT u CHECK (a > 0)", "2714/16/6 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT v CHECK (a > 0)", "2714/16/6 1750/16/1"),
            ("ALTER TABLE v ADD CONSTRAINT k CHECK (a > 0)", "4902/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            // unknown is not a violation
            ("ALTER TABLE t WITH CHECK ADD CONSTRAINT k CHECK (a > 0 AND b > 0)", ""),
            ("ALTER TABLE t CHECK CONSTRAINT k; ALTER TABLE t CHECK CONSTRAINT ALL", ""),
            (CONSTRAINTS, "'df_c' | 'D '\n'k' | 'C '"),
            (
                "SELECT definition, is_not_trusted FROM sys.check_constraints",
                "'(a > 0 AND b > 0)' | 0",
            ),
        ],
    );
    let found = rows(&mut *session, "INSERT t (a) VALUES (0)");
    assert!(found.starts_with("! 547/16/0") && found.contains("\"k\""), "{found}");
    bad(&mut *session, &[("ALTER TABLE t CHECK CONSTRAINT nix", "4917/16/0 4916/16/0")]);
    good(
        &mut *session,
        &[
            ("ALTER TABLE t DROP CONSTRAINT k", ""),
            ("INSERT t (a) VALUES (0)", ""),
            (CONSTRAINTS, "'df_c' | 'D '"),
            ("SELECT id, a, b, c FROM t WHERE a = 0", "11 | 0 | NULL | 'none'"),
            ("SELECT COUNT(*) FROM v", "4"),
        ],
    );
    healthy(&server);
}

#[test]
fn a_foreign_key_is_added_and_dropped() {
    let server = Server::new();
    let mut session = made(&server);
    rows(&mut *session, "CREATE TABLE n (x int NULL UNIQUE, y bigint PRIMARY KEY, z varchar(20))");
    rows(&mut *session, "CREATE TABLE heap (i int)");
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (i)", "547/16/0"),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (nix) REFERENCES u (i)",
                "1769/16/1 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES u (nix)",
                "1770/16/0 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES nix (i)",
                "1767/16/0 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES v (a)",
                "1767/16/0 1750/16/1",
            ),
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a, b) REFERENCES u (i)", "8139/16/0"),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES n (y)",
                "1778/16/0 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (c) REFERENCES n (z)",
                "1753/16/0 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES heap (i)",
                "1776/16/0 1750/16/1",
            ),
            (
                "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES heap",
                "1773/16/0 1750/16/1",
            ),
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES n (x)", "547/16/0"),
        ],
    );
    good(
        &mut *session,
        &[
            (CONSTRAINTS, "'df_c' | 'D '"),
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES u ON DELETE SET NULL", ""),
        ],
    );
    assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM sys.foreign_keys"), "1");
}

#[test]
fn a_foreign_key_holds_from_then_on() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES u ON DELETE SET NULL", ""),
            (
                "SELECT name, delete_referential_action_desc FROM sys.foreign_keys",
                "'f' | 'SET_NULL'",
            ),
            (
                "SELECT COL_NAME(parent_object_id, parent_column_id), \
                 COL_NAME(referenced_object_id, referenced_column_id) FROM sys.foreign_key_columns",
                "'b' | 'i'",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (a, b) VALUES (4, 9)", "547/16/0"),
            ("DROP TABLE u", "3726/16/1"),
            ("TRUNCATE TABLE u", "4712/16/1"),
            ("TRUNCATE TABLE v", "4708/16/2"),
            ("ALTER TABLE u DROP CONSTRAINT pk_u", "3725/16/0"),
            ("ALTER TABLE t DROP COLUMN b", "5074/16/1 5074/16/1 4922/16/9"),
        ],
    );
    good(
        &mut *session,
        &[
            ("DELETE u WHERE i = 2; SELECT a, b FROM t WHERE a > 1", "2 | NULL\n3 | NULL"),
            ("ALTER TABLE t DROP CONSTRAINT f", ""),
            ("INSERT t (a, b) VALUES (4, 9); SELECT id, c FROM t WHERE a = 4", "11 | 'none'"),
            ("ALTER TABLE u DROP CONSTRAINT pk_u", ""),
            ("DROP TABLE u", ""),
        ],
    );
    healthy(&server);
}

#[test]
fn keys_are_added_and_dropped() {
    let server = Server::new();
    let mut session = made(&server);
    let twice = rows(&mut *session, "INSERT t (a) VALUES (3); ALTER TABLE t ADD PRIMARY KEY (a)");
    assert!(twice.starts_with("! 1505/16/1"), "{twice}");
    assert!(twice.contains("'dbo.t'") && twice.contains("is (3)."), "{twice}");
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT q UNIQUE (b)", "1505/16/1 1750/16/1"),
            ("CREATE UNIQUE INDEX q ON t (b)", "1505/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY (b)", "8111/16/1 1750/16/1"),
            ("ALTER TABLE u ADD CONSTRAINT p PRIMARY KEY (name)", "1779/16/0 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY (nix)", "1911/16/1 1750/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            (CONSTRAINTS, "'df_c' | 'D '"),
            ("DELETE t WHERE id > 9", ""),
            ("ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY CLUSTERED (a DESC, id)", ""),
            ("ALTER TABLE t WITH NOCHECK ADD CONSTRAINT q UNIQUE NONCLUSTERED (b)", ""),
            (CONSTRAINTS, "'df_c' | 'D '\n'p' | 'PK'\n'q' | 'UQ'"),
            (
                "SELECT i.name, i.index_id, i.is_primary_key, i.is_unique_constraint, \
                 COL_NAME(c.object_id, c.column_id), c.is_descending_key FROM sys.indexes i JOIN \
                 sys.index_columns c ON c.object_id = i.object_id AND c.index_id = i.index_id \
                 WHERE i.object_id = OBJECT_ID('t') ORDER BY 2, c.key_ordinal",
                "'p' | 1 | 1 | 0 | 'a' | 1\n'p' | 1 | 1 | 0 | 'id' | 0\n'ix_t' | 2 | 0 | 0 | 'b' \
                 | 1\n'q' | 3 | 0 | 1 | 'b' | 0",
            ),
        ],
    );
    let pk = rows(&mut *session, "SET IDENTITY_INSERT t ON; INSERT t (id, a, b) VALUES (5, 1, 7)");
    assert!(pk.starts_with("! 2627/14/1") && pk.contains("PRIMARY KEY constraint 'p'"), "{pk}");
    let uq = rows(&mut *session, "SET IDENTITY_INSERT t OFF; INSERT t (a, b) VALUES (9, 1)");
    assert!(uq.starts_with("! 2627/14/1") && uq.contains("UNIQUE KEY constraint 'q'"), "{uq}");
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD PRIMARY KEY (id)", "1779/16/0 1750/16/1"),
            ("DROP INDEX p ON t", "3723/16/5"),
            ("DROP INDEX q ON t", "3723/16/5"),
        ],
    );
    // a key beside the table can be referred to by others
    good(
        &mut *session,
        &[
            ("CREATE TABLE w (x int, y int, FOREIGN KEY (x, y) REFERENCES t)", ""),
            ("INSERT w VALUES (1, 5)", ""),
        ],
    );
    bad(
        &mut *session,
        &[("INSERT w VALUES (1, 6)", "547/16/0"), ("ALTER TABLE t DROP CONSTRAINT p", "3725/16/0")],
    );
    good(
        &mut *session,
        &[
            ("DROP TABLE w; ALTER TABLE t DROP CONSTRAINT p, CONSTRAINT q", ""),
            (CONSTRAINTS, "'df_c' | 'D '"),
            ("INSERT t (a, b) VALUES (1, 1); SELECT COUNT(*) FROM t WHERE b = 1", "2"),
            ("SELECT COLUMNPROPERTY(OBJECT_ID('t'), 'a', 'AllowsNull')", "0"),
        ],
    );
    healthy(&server);
}

#[test]
fn keys_of_create_table_are_dropped() {
    for gone in ["pk_u", "uq_u", "later"] {
        let server = Server::new();
        let mut session = made(&server);
        let left: Vec<String> = ["later", "pk_u", "uq_u"]
            .iter()
            .filter(|name| **name != gone)
            .map(|name| format!("'{name}'"))
            .collect();
        let list = "SELECT name FROM sys.key_constraints ORDER BY name";
        good(
            &mut *session,
            &[
                (&format!("ALTER TABLE u DROP CONSTRAINT {gone}"), ""),
                (list, &left.join("\n")),
                ("SELECT i, name FROM u ORDER BY i", "1 | 'one'\n2 | 'two'"),
                ("SELECT i FROM u WHERE name = 'TWO'", "2"),
            ],
        );
        let same_i = rows(&mut *session, "INSERT u VALUES (1, 'x')");
        assert_eq!(same_i.is_empty(), gone == "pk_u", "{gone}: {same_i}");
        let same_name = rows(&mut *session, "INSERT u VALUES (7, 'One ')");
        assert_eq!(same_name.is_empty(), gone == "uq_u", "{gone}: {same_name}");
        // and is created again
        rows(&mut *session, "DELETE u WHERE i = 7 OR name = 'x'");
        let key = if gone == "pk_u" { "PRIMARY KEY (i)" } else { "UNIQUE (name, i)" };
        let again = format!("ALTER TABLE u ADD CONSTRAINT {gone} {key}");
        good(&mut *session, &[(&again, ""), (list, "'later'\n'pk_u'\n'uq_u'")]);
        healthy(&server);
    }
}

#[test]
fn a_default_is_added_and_dropped() {
    let server = Server::new();
    let mut session = made(&server);
    rows(&mut *session, "ALTER TABLE t ADD d int NOT NULL CONSTRAINT df_d DEFAULT 5");
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT x DEFAULT 1 FOR c", "1781/16/1 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT x DEFAULT 1 FOR nix", "1752/16/0 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT x DEFAULT 1 FOR id", "1754/16/0 1750/16/1"),
            ("ALTER TABLE t ADD CONSTRAINT df_c DEFAULT 1 FOR b", "2714/16/6 1750/16/1"),
            ("ALTER TABLE t DROP COLUMN d", "5074/16/1 4922/16/9"),
        ],
    );
    good(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT df_b DEFAULT (40 + 2) FOR b, DEFAULT 8 FOR a", ""),
            (
                "INSERT t DEFAULT VALUES; SELECT id, a, b, c, d FROM t WHERE a = 8",
                "11 | 8 | 42 | 'none' | 5",
            ),
            (
                "SELECT COUNT(*) FROM sys.default_constraints WHERE parent_object_id = \
                 OBJECT_ID('t')",
                "4",
            ),
            ("ALTER TABLE t DROP CONSTRAINT df_b, df_d, df_c", ""),
            ("SELECT COUNT(*) FROM sys.default_constraints", "1"),
            // earlier rows keep their values, new ones have none
            ("SELECT COUNT(*) FROM t WHERE d = 5", "4"),
            ("INSERT t (a, d) VALUES (9, 1); SELECT b, c FROM t WHERE a = 9", "NULL | NULL"),
        ],
    );
    bad(&mut *session, &[("INSERT t (a) VALUES (10)", "515/16/2")]);
    good(
        &mut *session,
        &[
            ("ALTER TABLE t ADD CONSTRAINT df_d DEFAULT 6 FOR d", ""),
            ("INSERT t (a) VALUES (11); SELECT d FROM t WHERE a = 11", "6"),
            ("ALTER TABLE t DROP CONSTRAINT df_d; ALTER TABLE t DROP COLUMN d", ""),
            ("ALTER TABLE t ADD d int NULL", ""),
            ("INSERT t (a) VALUES (12); SELECT d FROM t WHERE a = 12", "NULL"),
        ],
    );
    healthy(&server);
}

#[test]
fn columns_come_with_their_constraints() {
    let server = Server::new();
    let mut session = made(&server);
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t ADD e int NULL UNIQUE", "1505/16/1 1750/16/1"),
            ("ALTER TABLE t DROP COLUMN nix", "4924/16/1"),
            ("ALTER TABLE t ADD e int IDENTITY", "40517/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("SELECT COUNT(*) FROM sys.columns WHERE name = 'e'", "0"),
            ("ALTER TABLE t ADD e int NULL CONSTRAINT ck_e CHECK (e > 0) REFERENCES u (i)", ""),
            ("ALTER TABLE t ADD g int NULL, CONSTRAINT ck_g CHECK (g < e)", ""),
            ("ALTER TABLE t DROP COLUMN IF EXISTS nix", ""),
            ("INSERT t (a, e) VALUES (7, 1)", ""),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (a, e) VALUES (7, 0)", "547/16/0"),
            ("INSERT t (a, e) VALUES (7, 9)", "547/16/0"),
            ("INSERT t (a, e, g) VALUES (7, 2, 2)", "547/16/0"),
        ],
    );
    healthy(&server);
}

#[test]
fn what_is_no_constraint_cannot_be_dropped() {
    let server = Server::new();
    let mut session = made(&server);
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t DROP CONSTRAINT nix", "3728/16/1"),
            ("ALTER TABLE t DROP CONSTRAINT pk_u", "3728/16/1"),
            ("ALTER TABLE t DROP CONSTRAINT ix_t", "3728/16/1"),
            ("ALTER TABLE nix DROP CONSTRAINT x", "4902/16/1"),
        ],
    );
    // all or nothing
    bad(&mut *session, &[("ALTER TABLE t DROP CONSTRAINT df_c, nix", "3728/16/1")]);
    good(
        &mut *session,
        &[
            (CONSTRAINTS, "'df_c' | 'D '"),
            ("ALTER TABLE t DROP CONSTRAINT IF EXISTS nix, df_c", ""),
            (CONSTRAINTS, ""),
        ],
    );
}

#[test]
fn a_rollback_brings_the_table_back() {
    let server = Server::new();
    let mut session = made(&server);
    let mut other = server.session();
    assert_eq!(rows(&mut *other, "SELECT COUNT(*) FROM u"), "2");
    let batch = "BEGIN TRAN; ALTER TABLE u DROP CONSTRAINT pk_u; \
        ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (c) REFERENCES u (name)";
    // 'none' is an unknown name: the statement fails, the first constraint stays
    assert!(rows(&mut *session, batch).contains("! 547/16/0"));
    assert_eq!(rows(&mut *session, "INSERT u VALUES (1, 'x'); SELECT COUNT(*) FROM u"), "3");
    assert_eq!(rows(&mut *session, "ROLLBACK"), "~ rollback");
    for session in [&mut session, &mut other] {
        let twice = rows(&mut **session, "INSERT u VALUES (1, 'y')");
        assert!(twice.starts_with("! 2627/14/1") && twice.contains("'pk_u'"), "{twice}");
    }
    let batch = "BEGIN TRAN; ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES u (i); \
        ALTER TABLE u DROP CONSTRAINT uq_u; COMMIT";
    assert_eq!(rows(&mut *session, batch), "~ begin\n~ commit");
    // other sessions see it at once
    assert!(rows(&mut *other, "INSERT t (a, b) VALUES (4, 9)").starts_with("! 547/16/0"));
    assert_eq!(rows(&mut *other, "INSERT u VALUES (3, 'One')"), "");
    healthy(&server);
}

#[test]
fn temporary_tables_too() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE #t (a int NOT NULL CONSTRAINT k PRIMARY KEY); INSERT #t VALUES (1)", ""),
            ("ALTER TABLE #t DROP CONSTRAINT k; INSERT #t VALUES (1)", ""),
            ("ALTER TABLE #t ADD CONSTRAINT c CHECK (a = 1)", ""),
            ("SELECT COUNT(*) FROM #t", "2"),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT #t VALUES (2)", "547/16/0"),
            ("ALTER TABLE #t ADD PRIMARY KEY (a)", "1505/16/1 1750/16/1"),
            ("ALTER TABLE #t ADD FOREIGN KEY (a) REFERENCES #t (a)", "40512/16/1"),
        ],
    );
}

#[test]
fn tables_of_sqlite_keep_what_is_theirs() {
    let server = Server::new();
    let path = server.directory.path().join("app.db");
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch(
        "CREATE TABLE s (i INTEGER PRIMARY KEY, a INT UNIQUE -- (one\n, b INT NOT NULL); \
         CREATE TABLE log (n INT); CREATE TRIGGER g AFTER INSERT ON s BEGIN INSERT INTO log \
         VALUES (new.b); END; CREATE VIEW w AS SELECT i FROM s; INSERT INTO s VALUES (1, 1, 1)",
    )
    .unwrap();
    drop(file);
    let mut session = server.session();
    let key = "SELECT name FROM sys.key_constraints WHERE type = 'PK'";
    let name = rows(&mut *session, key).replace('\'', "");
    bad(
        &mut *session,
        &[
            (&format!("ALTER TABLE s DROP CONSTRAINT {name}"), "40512/16/1"),
            ("ALTER TABLE s ADD CONSTRAINT c CHECK (b > 1)", "547/16/0"),
        ],
    );
    good(
        &mut *session,
        &[
            ("ALTER TABLE s ADD CONSTRAINT c CHECK (b > 0)", ""),
            ("ALTER TABLE s ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES s (i)", ""),
            ("INSERT s VALUES (2, 2, 1); SELECT COUNT(*) FROM log", "2"),
            ("ALTER TABLE s DROP CONSTRAINT f, c; INSERT s VALUES (3, 3, -1)", ""),
        ],
    );
    healthy(&server);
}

#[test]
fn a_column_that_a_check_of_the_table_names_stays() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TABLE t (a int PRIMARY KEY, b int, len int,
        CONSTRAINT ordered CHECK (b > a AND LEN('x') = 1))";
    good(&mut *session, &[(made, "")]);
    let found = rows(&mut *session, "ALTER TABLE t DROP COLUMN b");
    assert!(found.contains("object 'ordered'"), "{found}");
    bad(&mut *session, &[("ALTER TABLE t DROP COLUMN b", "5074/16/1 4922/16/9")]);
    good(&mut *session, &[("ALTER TABLE t DROP COLUMN len", "")]);
}

#[test]
fn a_column_with_an_index_and_a_constraint_stays_and_all_that_use_it_are_named() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT positive CHECK (b > 0), c int);
        CREATE INDEX by_b ON t (b); CREATE UNIQUE INDEX by_cb ON t (c, b)";
    good(&mut *session, &[(made, "")]);
    let found = rows(&mut *session, "ALTER TABLE t DROP COLUMN b");
    for part in ["object 'positive'", "index 'by_b'", "index 'by_cb'"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let codes = "5074/16/1 5074/16/1 5074/16/1 4922/16/9";
    bad(&mut *session, &[("ALTER TABLE t DROP COLUMN b", codes)]);
    good(
        &mut *session,
        &[
            (
                "BEGIN TRY ALTER TABLE t DROP COLUMN b END TRY BEGIN CATCH \
                 SELECT ERROR_NUMBER() END CATCH",
                "4922",
            ),
            ("DROP INDEX by_b ON t; DROP INDEX by_cb ON t", ""),
            ("ALTER TABLE t DROP CONSTRAINT positive; ALTER TABLE t DROP COLUMN b", ""),
            ("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('t')", "'a'\n'c'"),
        ],
    );
}

/// As in SQL Server, CATCH sees the last one of two errors.
#[test]
fn a_second_error_follows_that_of_a_constraint() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE TABLE t (a int NULL, b int NOT NULL)", "")]);
    bad(
        &mut *session,
        &[
            ("CREATE TABLE u (a int NULL PRIMARY KEY)", "8111/16/1 1750/16/1"),
            ("ALTER TABLE t ADD PRIMARY KEY (a)", "8111/16/1 1750/16/1"),
            ("CREATE TABLE t (a int)", "2714/16/6"),
            ("ALTER TABLE t ADD b int", "2705/16/3"),
            ("CREATE UNIQUE INDEX i ON t (a, a)", "1909/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            (
                "BEGIN TRY ALTER TABLE t ADD PRIMARY KEY (a) END TRY
                 BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_MESSAGE() END CATCH",
                "1750 | 'Could not create constraint or index. See previous errors.'",
            ),
            ("ALTER TABLE t ADD PRIMARY KEY (b)", ""),
        ],
    );
    healthy(&server);
}
