//! What tools of migration read of the catalog and of errors.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};

#[test]
fn columns_of_checks_are_known_wherever_the_check_stands() {
    let server = Server::new();
    let mut session = server.session();
    let usage = "SELECT CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM \
        INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE ORDER BY CONSTRAINT_NAME, COLUMN_NAME";
    good(
        &mut *session,
        &[
            (
                "CREATE TABLE p (id int CONSTRAINT pk PRIMARY KEY, a int CONSTRAINT c1 CHECK \
                 (a > 0), b int, [c d] int, CONSTRAINT uq UNIQUE (a, b))",
                "",
            ),
            ("ALTER TABLE p ADD CONSTRAINT c2 CHECK ([c d] > b AND [c d] < 9)", ""),
            ("CREATE TABLE q (i int, CONSTRAINT fk FOREIGN KEY (i) REFERENCES p (id))", ""),
            ("CREATE TABLE #t (i int PRIMARY KEY)", ""),
            (
                usage,
                "'c1' | 'dbo' | 'p' | 'a'\n'c2' | 'dbo' | 'p' | 'b'\n'c2' | 'dbo' | 'p' | 'c d'\n\
                 'fk' | 'dbo' | 'q' | 'i'\n'pk' | 'dbo' | 'p' | 'id'\n'uq' | 'dbo' | 'p' | 'a'\n\
                 'uq' | 'dbo' | 'p' | 'b'",
            ),
        ],
    );
}

#[test]
fn what_does_not_exist_has_an_empty_view() {
    let server = Server::new();
    let mut session = server.session();
    for view in [
        "column_encryption_keys",
        "column_master_keys",
        "event_notifications",
        "fulltext_catalogs",
        "fulltext_stoplists",
        "partition_functions",
        "partition_schemes",
        "registered_search_property_lists",
        "service_queues",
        "services",
        "xml_schema_collections",
    ] {
        good(&mut *session, &[(&format!("SELECT name FROM sys.{view}"), "")]);
    }
}

/// Flyway's `clean` would drop it.
#[test]
fn the_master_key_is_in_master() {
    let server = Server::new();
    let mut session = server.session();
    let name = "'##MS_DatabaseMasterKey##'";
    good(
        &mut *session,
        &[
            ("SELECT name FROM sys.symmetric_keys", ""),
            ("SELECT name FROM master.sys.symmetric_keys", name),
        ],
    );
}

const FAMILY: &str = "CREATE TABLE p (id int IDENTITY CONSTRAINT pk PRIMARY KEY, n int);
    CREATE TABLE s.c (id int PRIMARY KEY, pid int CONSTRAINT fk_p REFERENCES p,
      up int CONSTRAINT fk_up REFERENCES s.c (id), n int CONSTRAINT positive CHECK (n > 0));
    CREATE TABLE g (cid int CONSTRAINT fk_c REFERENCES s.c ON DELETE CASCADE);
    CREATE TABLE one (pid int CONSTRAINT fk_one REFERENCES p (id), a int, b int,
      CONSTRAINT ordered CHECK (a < b));
    INSERT p VALUES (1), (2); INSERT s.c VALUES (1, 1, NULL, 1), (2, NULL, 1, 1);
    INSERT one VALUES (2, 1, 2)";

/// The text of the error that a batch gives.
fn told(session: &mut dyn tdekit_wire_tds::Session, batch: &str) -> String {
    let text = format!("BEGIN TRY {batch} END TRY BEGIN CATCH SELECT ERROR_MESSAGE() END CATCH");
    rows(session, &text)
}

#[test]
fn a_conflict_names_its_constraint_and_place() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE SCHEMA s", ""), (FAMILY, "")]);
    for (batch, kind, place) in [
        ("INSERT one VALUES (9, 1, 2)", "FOREIGN KEY constraint \"fk_one\"", "p\", column 'id'"),
        ("UPDATE one SET pid = 9", "FOREIGN KEY constraint \"fk_one\"", "p\", column 'id'"),
        ("UPDATE s.c SET n = 0", "CHECK constraint \"positive\"", "s.c\", column 'n'"),
        ("INSERT one VALUES (1, 2, 1)", "CHECK constraint \"ordered\"", "one\""),
        (
            "DELETE s.c WHERE id = 1",
            "SAME TABLE REFERENCE constraint \"fk_up\"",
            "s.c\", column 'up'",
        ),
    ] {
        let place = if place.starts_with("s.") { place.to_owned() } else { format!("dbo.{place}") };
        let verb = batch.split(' ').next().unwrap();
        let wanted = format!(
            "'The {verb} statement conflicted with the {kind}. The conflict occurred in database \
             \"app\", table \"{place}.'"
        );
        assert_eq!(told(&mut *session, batch), wanted, "{batch}");
    }
}

#[test]
fn a_conflict_with_one_of_several_keys_names_none() {
    let server = Server::new();
    let mut session = server.session();
    good(&mut *session, &[("CREATE SCHEMA s", ""), (FAMILY, "")]);
    for (batch, kind, table) in [
        ("INSERT s.c VALUES (5, 9, NULL, 1)", "FOREIGN KEY", "s.c"),
        ("UPDATE s.c SET pid = 9", "FOREIGN KEY", "s.c"),
        ("DELETE p", "REFERENCE", "dbo.p"),
        (
            "MERGE one USING (VALUES (9)) AS v (x) ON 1 = 0 WHEN NOT MATCHED THEN \
             INSERT (pid, a, b) VALUES (9, 1, 2);",
            "FOREIGN KEY",
            "dbo.one",
        ),
    ] {
        let verb = batch.split(' ').next().unwrap();
        let wanted = format!(
            "'The {verb} statement conflicted with the {kind} constraint of table \"app.{table}\".'"
        );
        assert_eq!(told(&mut *session, batch), wanted, "{batch}");
    }
}

#[test]
fn a_new_key_that_rows_violate_names_the_parent() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (a int); INSERT c VALUES (1)", "")],
    );
    let wanted = "'The ALTER TABLE statement conflicted with the FOREIGN KEY constraint \"fk\". \
        The conflict occurred in database \"app\", table \"dbo.p\", column 'id'.'";
    let add = "ALTER TABLE c ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES p (id)";
    assert_eq!(told(&mut *session, add), wanted);
    let later = "ALTER TABLE c WITH CHECK CHECK CONSTRAINT fk";
    good(&mut *session, &[(&add.replace("ADD", "WITH NOCHECK ADD"), "")]);
    assert_eq!(told(&mut *session, later), wanted);
}

#[test]
fn a_column_that_takes_no_null_is_added_to_an_empty_table() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            (
                "CREATE TABLE t (a int CHECK (a > 0)); CREATE TABLE u (a int); INSERT u VALUES (1)",
                "",
            ),
            ("ALTER TABLE t ADD b int NOT NULL, c varchar(9) NOT NULL DEFAULT NULL", ""),
            ("INSERT t VALUES (1, 2, 'x')", ""),
            (
                "SELECT COLUMN_NAME, IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS \
                 WHERE TABLE_NAME = 't'",
                "'a' | 'YES'\n'b' | 'NO'\n'c' | 'NO'",
            ),
        ],
    );
    bad(
        &mut *session,
        &[
            ("INSERT t (a, c) VALUES (1, 'x')", "515/16/2"),
            ("INSERT t (a, b) VALUES (1, 1)", "515/16/2"),
            ("ALTER TABLE t ADD d int NOT NULL", "4901/16/1"),
            ("ALTER TABLE u ADD d int NOT NULL", "4901/16/1"),
            ("ALTER TABLE u ADD d int NOT NULL DEFAULT NULL", "515/16/2"),
        ],
    );
    good(&mut *session, &[("SELECT * FROM u", "1")]);
    healthy(&server);
}

#[test]
fn constraints_of_one_name_lie_in_several_schemas() {
    let server = Server::new();
    let mut session = server.session();
    let table = "(id int CONSTRAINT pk PRIMARY KEY, a int CONSTRAINT df DEFAULT 1, b int, \
        CONSTRAINT positive CHECK (a > 0), CONSTRAINT uq UNIQUE (b))";
    good(&mut *session, &[("CREATE SCHEMA s", ""), ("CREATE SCHEMA r", "")]);
    for schema in ["dbo", "s", "r"] {
        good(&mut *session, &[(&format!("CREATE TABLE {schema}.t {table}"), "")]);
    }
    bad(
        &mut *session,
        &[
            ("CREATE TABLE u (id int CONSTRAINT pk PRIMARY KEY)", "2714/16/6 1750/16/1"),
            ("CREATE TABLE s.u (id int CONSTRAINT PK PRIMARY KEY)", "2714/16/6 1750/16/1"),
            ("ALTER TABLE r.t ADD CONSTRAINT uq CHECK (b > 0)", "2714/16/6 1750/16/1"),
            ("EXEC sp_rename 's.uq', 'df', 'OBJECT'", "15335/11/1"),
        ],
    );
    good(&mut *session, &[("CREATE TABLE s.v (id int CONSTRAINT other PRIMARY KEY)", "")]);
    good(&mut *session, &[("CREATE TABLE s.w (id int CONSTRAINT [free] PRIMARY KEY)", "")]);
    assert!(rows(&mut *session, "EXEC sp_rename 's.other', 'uq2', 'OBJECT'").contains("status 0"));
    good(&mut *session, &[("CREATE TABLE r.x (id int CONSTRAINT uq2 PRIMARY KEY)", "")]);
    bad(&mut *session, &[("ALTER SCHEMA r TRANSFER s.v", "15530/16/1")]);
    good(&mut *session, &[("ALTER SCHEMA r TRANSFER s.w; DROP TABLE s.v, r.w, r.x", "")]);
    let kept = "'df' | 'r'\n'df' | 's'\n'pk' | 'dbo'\n'pk' | 'r'\n'pk' | 's'\n\
        'positive' | 'dbo'\n'positive' | 'r'\n'positive' | 's'\n'uq' | 'dbo'\n'uq' | 's'";
    good(
        &mut *session,
        &[
            ("ALTER TABLE dbo.t DROP CONSTRAINT df", ""),
            ("ALTER TABLE r.t DROP CONSTRAINT uq", ""),
            (
                "SELECT name, SCHEMA_NAME(schema_id) FROM sys.objects WHERE parent_object_id <> 0 \
                 ORDER BY 1, 2",
                kept,
            ),
            ("SELECT COUNT(DISTINCT object_id), COUNT(*) FROM sys.objects", "13 | 13"),
            ("SELECT OBJECT_ID('df'), OBJECT_NAME(OBJECT_ID('s.df'))", "NULL | 'df'"),
            ("INSERT dbo.t (id) VALUES (1); INSERT s.t (id) VALUES (1)", ""),
            ("SELECT d.a, s.a FROM dbo.t AS d JOIN s.t AS s ON s.id = d.id", "NULL | 1"),
        ],
    );
    healthy(&server);
}

/// GORM asks so for the remarks of each column.
#[test]
fn properties_of_another_database_are_listed() {
    let server = Server::new();
    let mut session = server.session();
    let listed = |database: &str| {
        format!(
            "SELECT objname, value FROM {database}.sys.fn_listextendedproperty('MS_Description', \
             'SCHEMA', 'dbo', 'TABLE', 't', 'COLUMN', NULL)"
        )
    };
    let add = "EXEC sp_addextendedproperty 'MS_Description', 'about a', 'SCHEMA', 'dbo', 'TABLE', \
        't', 'COLUMN', 'a'";
    rows(&mut *session, &format!("CREATE TABLE t (a int, b int); {add}"));
    good(
        &mut *session,
        &[(&listed("[app]"), "'a' | 'about a'"), (&listed("other"), ""), (&listed("master"), "")],
    );
    bad(&mut *session, &[(&listed("nix"), "911/16/1")]);
}

#[test]
fn foreign_keys_of_one_name_keep_their_own_state() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE SCHEMA s", ""),
            ("CREATE SCHEMA r", ""),
            ("CREATE TABLE p (a int PRIMARY KEY)", ""),
            ("CREATE TABLE s.c (a int CONSTRAINT f REFERENCES p (a))", ""),
            ("CREATE TABLE r.c (a int CONSTRAINT f REFERENCES p (a))", ""),
            ("ALTER TABLE r.c NOCHECK CONSTRAINT f; INSERT r.c VALUES (99)", ""),
            (
                "SELECT OBJECT_SCHEMA_NAME(parent_object_id), name, is_disabled, is_not_trusted \
                 FROM sys.foreign_keys ORDER BY 1 DESC",
                "'s' | 'f' | 0 | 0\n'r' | 'f' | 1 | 1",
            ),
        ],
    );
}
