//! MERGE.

use crate::common::{Server, rows};
use crate::constraints::{bad, good, healthy};

const MADE: &str = "CREATE TABLE t (id int IDENTITY PRIMARY KEY, k int UNIQUE, n nvarchar(20) NULL,
    q int NOT NULL DEFAULT 7, twice AS q * 2, v rowversion);
    CREATE TABLE s (k int, n nvarchar(20)); INSERT t (k, n) VALUES (1, 'one'), (2, 'two'), (3,
    'three');
    INSERT s VALUES (2, 'zwei'), (3, 'drei'), (4, 'vier')";

#[test]
fn rows_are_updated_deleted_and_inserted() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, MADE);
    good(
        &mut *session,
        &[
            (
                "MERGE INTO t WITH (HOLDLOCK) AS target USING s AS source ON target.k = source.k
                 WHEN MATCHED AND source.k = 3 THEN DELETE
                 WHEN MATCHED THEN UPDATE SET n = source.n, target.q += 1
                 WHEN NOT MATCHED BY TARGET THEN INSERT (k, n) VALUES (k, n)
                 WHEN NOT MATCHED BY SOURCE AND target.k = 1 THEN UPDATE SET n = DEFAULT, q = k *
                 100
                 OUTPUT $action, deleted.id, inserted.id, inserted.n, deleted.q, inserted.twice,
                 source.n;",
                "'DELETE' | 3 | NULL | NULL | 7 | NULL | 'drei'\n\
                 'UPDATE' | 2 | 2 | 'zwei' | 7 | 16 | 'zwei'\n\
                 'UPDATE' | 1 | 1 | NULL | 7 | 200 | NULL\n\
                 'INSERT' | NULL | 4 | 'vier' | NULL | 14 | 'vier'",
            ),
            ("SELECT @@ROWCOUNT, SCOPE_IDENTITY()", "4 | 4"),
            (
                "SELECT id, k, n, q, CAST(v AS int) FROM t ORDER BY id",
                "1 | 1 | NULL | 100 | 2005\n2 | 2 | 'zwei' | 8 | 2004\n4 | 4 | 'vier' | 7 | 2006",
            ),
            (
                "MERGE t USING s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE;
              SELECT k FROM t ORDER BY k",
                "2\n4",
            ),
            (
                "MERGE t USING (SELECT MAX(k) AS k FROM s) AS m ON m.k = t.k WHEN MATCHED THEN
             UPDATE SET k = -m.k;
              SELECT k FROM t ORDER BY k",
                "-4\n2",
            ),
            (
                "DECLARE @k int = 2, @n nvarchar(5) = 'new';
              MERGE t USING (SELECT @k, @n) AS x (k, n) ON t.k = x.k
              WHEN MATCHED THEN UPDATE SET n = x.n WHEN NOT MATCHED THEN INSERT (k, n) VALUES
              (x.k, x.n);
              SELECT n FROM t WHERE k = 2",
                "'new'",
            ),
            (
                "MERGE t USING (VALUES (8)) AS x (k) ON 1 = 0 WHEN NOT MATCHED THEN INSERT DEFAULT
             VALUES
              OUTPUT inserted.id;",
                "5",
            ),
            (
                "WITH c AS (SELECT 2 AS k) MERGE t USING c ON c.k = t.k WHEN MATCHED THEN DELETE
             OUTPUT deleted.k;",
                "2",
            ),
        ],
    );
    healthy(&server);
}

/// The statement with which EF Core inserts several rows.
#[test]
fn generated_values_come_back_in_order() {
    let server = Server::new();
    let mut session = server.session();
    rows(
        &mut *session,
        "CREATE SEQUENCE q START WITH 100;
        CREATE TABLE Blogs (Id int NOT NULL IDENTITY, Name nvarchar(max) NULL,
        Code bigint NOT NULL DEFAULT (NEXT VALUE FOR q), CONSTRAINT PK PRIMARY KEY (Id))",
    );
    good(
        &mut *session,
        &[
            (
                "EXEC sp_executesql N'SET IMPLICIT_TRANSACTIONS OFF; SET NOCOUNT ON;
                 MERGE [Blogs] USING (VALUES (@p0, 0), (@p1, 1), (@p2, 2)) AS i ([Name],
                 _Position) ON 1=0
                 WHEN NOT MATCHED THEN INSERT ([Name]) VALUES (i.[Name])
                 OUTPUT INSERTED.[Id], INSERTED.[Code], i._Position;',
                 N'@p0 nvarchar(4000), @p1 nvarchar(4000), @p2 nvarchar(4000)', N'a', N'b', NULL",
                "1 | 100 | 0\n2 | 101 | 1\n3 | 102 | 2\nstatus 0",
            ),
            (
                "DECLARE @inserted0 TABLE ([Id] int, [_Position] [int]);
                 MERGE [Blogs] USING (VALUES (N'x', 0), (N'y', 1)) AS i ([Name], _Position) ON 1=0
                 WHEN NOT MATCHED THEN INSERT ([Name]) VALUES (i.[Name])
                 OUTPUT INSERTED.[Id], i._Position INTO @inserted0;
                 SELECT [t].[Id], [t].[Name] FROM [Blogs] t INNER JOIN @inserted0 i ON ([t].[Id]
                 = [i].[Id])
                 ORDER BY [i].[_Position]",
                "4 | 'x'\n5 | 'y'",
            ),
            (
                "SET IDENTITY_INSERT Blogs ON; MERGE Blogs AS b USING (VALUES (5, 'z'), (50,
                 'w')) AS n (i, n)
                 ON n.i = b.Id WHEN MATCHED THEN UPDATE SET Name = n.n
                 WHEN NOT MATCHED THEN INSERT (Id, Name) VALUES (n.i, n.n) OUTPUT $action,
                 inserted.Name;
                 SET IDENTITY_INSERT Blogs OFF; INSERT Blogs (Name) OUTPUT inserted.Id VALUES
                 ('after')",
                "'UPDATE' | 'z'\n'INSERT' | 'w'\n51",
            ),
        ],
    );
}

#[test]
fn what_cannot_be_merged_changes_nothing() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, MADE);
    rows(&mut *session, "INSERT s VALUES (2, 'deux'); CREATE SEQUENCE q");
    let using = "MERGE t USING s ON t.k = s.k";
    for (rest, codes) in [
        ("WHEN MATCHED THEN UPDATE SET n = s.n;", "8672/16/1"),
        (
            "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k) WHEN MATCHED THEN UPDATE SET n = s.n;",
            "8672/16/1",
        ),
        ("WHEN MATCHED THEN DELETE", "10713/15/1"),
        ("WHEN MATCHED THEN DELETE SELECT 1;", "10713/15/1"),
        ("WHEN MATCHED THEN INSERT (k) VALUES (1);", "10711/15/1"),
        ("WHEN NOT MATCHED BY SOURCE THEN INSERT (k) VALUES (1);", "10711/15/1"),
        ("WHEN NOT MATCHED THEN DELETE;", "10710/15/1"),
        ("WHEN MATCHED AND 1 = 0 THEN DELETE WHEN MATCHED THEN DELETE;", "10714/15/1"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED AND 1 = 1 THEN UPDATE SET n = 'x';", "5324/15/1"),
        ("WHEN NOT MATCHED THEN INSERT (k, n) VALUES (1);", "109/15/1"),
        ("WHEN NOT MATCHED THEN INSERT (k, twice) VALUES (1, 1);", "271/16/1"),
        ("WHEN NOT MATCHED THEN INSERT (k, v) VALUES (1, 0x01);", "273/16/1"),
        ("WHEN NOT MATCHED THEN INSERT (id, k) VALUES (1, 2);", "544/16/1"),
        ("WHEN MATCHED THEN UPDATE SET id = 1;", "8102/16/1"),
        ("WHEN MATCHED THEN UPDATE SET q = NULL;", "515/16/2"),
        ("WHEN NOT MATCHED THEN INSERT (k) VALUES (1);", "2627/14/1"),
        ("WHEN NOT MATCHED THEN INSERT (k) VALUES (NEXT VALUE FOR q);", "11742/16/1"),
        ("WHEN MATCHED THEN UPDATE SET nix = 1;", "207/16/1"),
        ("WHEN NOT MATCHED THEN INSERT (k) VALUES (t.k);", "4104/16/1"),
        ("WHEN NOT MATCHED BY SOURCE AND s.k = 1 THEN DELETE;", "4104/16/1"),
        ("WHEN MATCHED AND t.k / 0 = 1 THEN DELETE;", "8134/16/1"),
        ("", "102/15/1"),
    ] {
        let batch = format!("{using} {rest}");
        if codes == "8672/16/1" || codes == "515/16/2" {
            // several rows of the source belong to one of the target
            bad(&mut *session, &[(&batch.replace("q = NULL", "q = NULL, n = s.n"), "8672/16/1")]);
            continue;
        }
        bad(&mut *session, &[(&batch, codes)]);
    }
    bad(
        &mut *session,
        &[
            ("MERGE nix USING s ON 1 = 1 WHEN MATCHED THEN DELETE;", "208/16/1"),
            (
                "DELETE s WHERE n = 'deux'; MERGE t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE
                 SET q = NULL;",
                "515/16/2",
            ),
        ],
    );
    good(
        &mut *session,
        &[
            ("SELECT COUNT(*), MIN(n), MAX(q), CAST(MAX(v) AS int) FROM t", "3 | 'one' | 7 | 2003"),
            // deleted twice is deleted once
            (
                "INSERT s VALUES (3, 'trois'); MERGE t USING s ON t.k = s.k WHEN MATCHED THEN
                 DELETE; SELECT @@ROWCOUNT",
                "2",
            ),
        ],
    );
    healthy(&server);
}
