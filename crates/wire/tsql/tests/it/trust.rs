//! Constraints that rows may violate: WITH NOCHECK, NOCHECK CONSTRAINT, CHECK CONSTRAINT.

use crate::common::{Server, rows};
use crate::constraints::{bad, good};

const TRUST: &str = "SELECT name, is_disabled, is_not_trusted FROM (SELECT name, is_disabled, \
    is_not_trusted FROM sys.foreign_keys UNION ALL SELECT name, is_disabled, is_not_trusted FROM \
    sys.check_constraints) AS x ORDER BY name";

const MADE: &str = "CREATE TABLE p (i int CONSTRAINT pk_p PRIMARY KEY);
    CREATE TABLE c (i int IDENTITY PRIMARY KEY, p int NULL, a int NULL CONSTRAINT d DEFAULT 1);
    INSERT p VALUES (1); INSERT c (p, a) VALUES (1, 1), (7, -1)";

#[test]
fn rows_that_are_there_may_violate_a_constraint_of_nocheck() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, MADE);
    bad(
        &mut *session,
        &[
            ("ALTER TABLE c WITH CHECK ADD CONSTRAINT k CHECK (a > 0)", "547/16/0"),
            ("ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p (i)", "547/16/0"),
            ("ALTER TABLE c WITH NOCHECK ADD CONSTRAINT k CHECK (nix > 0)", "207/16/1"),
            (
                "ALTER TABLE c WITH NOCHECK ADD FOREIGN KEY (a) REFERENCES nix (i)",
                "1767/16/0 1750/16/1",
            ),
        ],
    );
    good(
        &mut *session,
        &[
            (
                "ALTER TABLE c WITH NOCHECK ADD CONSTRAINT k CHECK (a > 0),
                 CONSTRAINT f FOREIGN KEY (p) REFERENCES p (i) ON DELETE CASCADE",
                "",
            ),
            (TRUST, "'f' | 0 | 1\n'k' | 0 | 1"),
            ("SELECT COUNT(*) FROM c", "2"),
            (
                "SELECT OBJECTPROPERTY(OBJECT_ID('k'), 'CnstIsNotTrusted'),
                 OBJECTPROPERTY(OBJECT_ID('k'), 'CnstIsDisabled')",
                "1 | 0",
            ),
        ],
    );
    // new values are checked, and the old ones stay until then
    bad(
        &mut *session,
        &[
            ("INSERT c (p, a) VALUES (1, 0)", "547/16/0"),
            ("INSERT c (p, a) VALUES (8, 1)", "547/16/0"),
            ("UPDATE c SET a = -2 WHERE i = 2", "547/16/0"),
            ("UPDATE c SET p = 9 WHERE i = 2", "547/16/0"),
            ("ALTER TABLE c WITH CHECK CHECK CONSTRAINT k", "547/16/0"),
            ("ALTER TABLE c WITH CHECK CHECK CONSTRAINT ALL", "547/16/0"),
        ],
    );
    good(
        &mut *session,
        &[
            (TRUST, "'f' | 0 | 1\n'k' | 0 | 1"),
            // definitions do not look at rows that violate another constraint
            ("ALTER TABLE c ADD e int NOT NULL DEFAULT 5", ""),
            ("ALTER TABLE c ADD CONSTRAINT q UNIQUE (i, e)", ""),
            ("ALTER TABLE c DROP CONSTRAINT q", ""),
            ("SELECT p, a, e FROM c ORDER BY i", "1 | 1 | 5\n7 | -1 | 5"),
            ("UPDATE c SET a = 3, p = 1 WHERE i = 2", ""),
            ("ALTER TABLE c WITH CHECK CHECK CONSTRAINT k", ""),
            (TRUST, "'f' | 0 | 1\n'k' | 0 | 0"),
            ("ALTER TABLE c WITH CHECK CHECK CONSTRAINT ALL", ""),
            (TRUST, "'f' | 0 | 0\n'k' | 0 | 0"),
            ("DELETE p WHERE i = 1; SELECT COUNT(*) FROM c", "0"),
        ],
    );
}

#[test]
fn a_disabled_constraint_is_not_enforced_and_not_forgotten() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, MADE);
    good(
        &mut *session,
        &[
            (
                "DELETE c WHERE p = 7; ALTER TABLE c ADD CONSTRAINT k CHECK (a > 0),
                 CONSTRAINT f FOREIGN KEY (p) REFERENCES p (i) ON DELETE SET NULL",
                "",
            ),
            ("ALTER TABLE c NOCHECK CONSTRAINT k, f", ""),
            (TRUST, "'f' | 1 | 1\n'k' | 1 | 1"),
            ("INSERT c (p, a) VALUES (5, -5); DELETE p; SELECT p, a FROM c ORDER BY i", "1 | 1\n5 \
             | -5"),
            (
                "SELECT f.name, t.name, delete_referential_action_desc, COL_NAME(k.parent_object_id,
                 k.parent_column_id), COL_NAME(k.referenced_object_id, k.referenced_column_id)
                 FROM sys.foreign_keys f JOIN sys.tables t ON t.object_id = f.referenced_object_id
                 JOIN sys.foreign_key_columns k ON k.constraint_object_id = f.object_id",
                "'f' | 'p' | 'SET_NULL' | 'p' | 'i'",
            ),
        ],
    );
    // the definition still counts for other definitions
    bad(
        &mut *session,
        &[
            ("DROP TABLE p", "3726/16/1"),
            ("TRUNCATE TABLE p", "4712/16/1"),
            ("ALTER TABLE p DROP CONSTRAINT pk_p", "3725/16/0"),
            ("ALTER TABLE c DROP COLUMN a", "5074/16/1 5074/16/1 4922/16/9"),
            ("ALTER TABLE c ADD CONSTRAINT k CHECK (a > 1)", "2714/16/6 1750/16/1"),
            ("ALTER TABLE c NOCHECK CONSTRAINT nix", "4917/16/0 4916/16/0"),
            ("ALTER TABLE c NOCHECK CONSTRAINT d", "11415/16/1 4916/16/0"),
            ("ALTER TABLE p CHECK CONSTRAINT pk_p", "11415/16/1 4916/16/0"),
        ],
    );
    for rename in ["'p', 'parents'", "'parents.i', 'id', 'COLUMN'", "'f', 'g'"] {
        assert!(
            rows(&mut *session, &format!("EXEC sp_rename {rename}")).starts_with("! 15477/0/1")
        );
    }
    rows(&mut *session, "EXEC sp_rename 'c.p', 'parent', 'COLUMN'");
    good(
        &mut *session,
        &[("ALTER TABLE c CHECK CONSTRAINT ALL", ""), (TRUST, "'g' | 0 | 1\n'k' | 0 | 1")],
    );
    bad(
        &mut *session,
        &[
            ("INSERT c (parent, a) VALUES (5, 1)", "547/16/0"),
            ("INSERT c (parent, a) VALUES (NULL, 0)", "547/16/0"),
            ("ALTER TABLE c WITH CHECK CHECK CONSTRAINT g", "547/16/0"),
        ],
    );
    good(
        &mut *session,
        &[
            ("INSERT parents VALUES (1), (5); ALTER TABLE c WITH CHECK CHECK CONSTRAINT g", ""),
            (TRUST, "'g' | 0 | 0\n'k' | 0 | 1"),
            ("DELETE parents WHERE id = 5; SELECT parent FROM c ORDER BY i", "1\nNULL"),
            // what is undone or dropped leaves nothing behind
            ("BEGIN TRAN; ALTER TABLE c NOCHECK CONSTRAINT ALL; ROLLBACK", "~ begin\n~ rollback"),
            (TRUST, "'g' | 0 | 0\n'k' | 0 | 1"),
            ("ALTER TABLE c NOCHECK CONSTRAINT g; ALTER TABLE c DROP CONSTRAINT g, k", ""),
            (TRUST, ""),
            ("DROP TABLE parents; INSERT c (parent, a) VALUES (99, -99)", ""),
        ],
    );
    let other = &mut *server.session();
    assert_eq!(rows(other, "SELECT COUNT(*) FROM c"), "3");
}

/// Rows that violate a constraint that is not trusted are not damage.
#[test]
fn untrusted_rows_are_not_damage_and_disabled_constraints_are_shown() {
    let server = Server::new();
    let mut session = server.session();
    good(
        &mut *session,
        &[
            ("CREATE TABLE t (a int); INSERT t VALUES (-1)", ""),
            ("ALTER TABLE t WITH NOCHECK ADD CONSTRAINT k CHECK (a > 0)", ""),
            (
                "ALTER TABLE t ADD CONSTRAINT d CHECK (a < 9); ALTER TABLE t NOCHECK CONSTRAINT d",
                "",
            ),
        ],
    );
    let told = rows(&mut *session, "DBCC CHECKDB");
    assert!(told.contains("0 consistency errors"), "{told}");
    let told = rows(&mut *session, "EXEC sp_help 't'");
    assert!(told.contains("Enabled") && told.contains("Disabled"), "{told}");
}

#[test]
fn checkconstraints_shows_the_rows_that_violate_a_constraint() {
    let server = Server::new();
    let mut session = server.session();
    for batch in [
        "CREATE SCHEMA x",
        "CREATE TABLE p (i int CONSTRAINT pk_p PRIMARY KEY, j int, CONSTRAINT uq UNIQUE (i, j))",
        "CREATE TABLE x.c (a int NULL, b nvarchar(9) NULL, d date NULL); INSERT x.c VALUES
         (1, N'it''s', '2026-11-29'), (-2, NULL, NULL), (7, N'y', '2000-01-01')",
        "ALTER TABLE x.c WITH NOCHECK ADD CONSTRAINT k CHECK (a > 0 AND b <> 'y'),
         CONSTRAINT young CHECK (a < 7 OR d IS NULL),
         CONSTRAINT f FOREIGN KEY (a) REFERENCES p (i)",
        "INSERT p VALUES (1, 1), (7, 7); ALTER TABLE x.c NOCHECK CONSTRAINT young",
        "CREATE TABLE whole (a int CHECK (a > 0)); INSERT whole VALUES (1), (NULL)",
    ] {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    let quiet = |session: &mut dyn tdekit_wire_tds::Session, what: &str, options: &str| {
        rows(session, &format!("DBCC CHECKCONSTRAINTS {what} WITH NO_INFOMSGS{options}"))
    };
    let k = "'[x].[c]' | '[k]' | '[a] = '-2' AND [b] IS NULL'\n\
             '[x].[c]' | '[k]' | '[a] = '7' AND [b] = 'y''";
    let f = "'[x].[c]' | '[f]' | '[a] = '-2''";
    let young = "'[x].[c]' | '[young]' | '[a] = '7' AND [d] = '2000-01-01''";
    assert_eq!(quiet(&mut *session, "", ""), format!("{k}\n{f}"));
    assert_eq!(quiet(&mut *session, "('x.c')", ""), format!("{k}\n{f}"));
    assert_eq!(quiet(&mut *session, "(x.c)", ", ALL_CONSTRAINTS"), format!("{k}\n{young}\n{f}"));
    assert_eq!(quiet(&mut *session, "('x.f')", ""), f);
    assert_eq!(quiet(&mut *session, "(x.young)", ""), young);
    assert_eq!(quiet(&mut *session, "(whole)", ""), "");
    let id = rows(&mut *session, "SELECT OBJECT_ID('x.c')");
    assert_eq!(quiet(&mut *session, &format!("({id})"), ""), format!("{k}\n{f}"));
    let id = rows(&mut *session, "SELECT OBJECT_ID('x.f', 'F')");
    assert_eq!(quiet(&mut *session, &format!("({id})"), ""), f);
    let told = rows(&mut *session, "DBCC CHECKCONSTRAINTS (x.f)");
    assert!(told.starts_with(f) && told.contains("2528/0/1"), "{told}");
    bad(
        &mut *session,
        &[
            ("DBCC CHECKCONSTRAINTS (nix)", "2501/16/45"),
            ("DBCC CHECKCONSTRAINTS (young)", "2501/16/45"),
            ("DBCC CHECKCONSTRAINTS (5)", "2501/16/45"),
        ],
    );
    // no more than 200 rows of one constraint, unless all are wanted
    let more =
        "SELECT TOP (300) -1 AS a INTO #n FROM sys.all_columns; INSERT whole SELECT 1 FROM #n;
                ALTER TABLE whole WITH NOCHECK ADD CONSTRAINT big CHECK (a > 1)";
    rows(&mut *session, more);
    assert_eq!(quiet(&mut *session, "(big)", "").lines().count(), 200);
    assert!(quiet(&mut *session, "(big)", ", ALL_ERRORMSGS").lines().count() > 200);
}
