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
            ("ALTER TABLE c WITH NOCHECK ADD FOREIGN KEY (a) REFERENCES nix (i)", "1767/16/0"),
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
            ("ALTER TABLE c ADD CONSTRAINT k CHECK (a > 1)", "2714/16/6"),
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
