//! System views, catalog procedures and functions that look up objects, as used by drivers.

use crate::common::{Server, rows, run};
use tdekit_wire_tds::Session;

const SCHEMA: &[&str] = &[
    "CREATE TABLE parent (id int IDENTITY(1,1) NOT NULL, code char(3) NULL, \
     name nvarchar(40) NOT NULL CONSTRAINT df_name DEFAULT N'x', price decimal(10,2) NULL \
     CONSTRAINT positive CHECK (price > 0), CONSTRAINT pk_parent PRIMARY KEY (id), \
     CONSTRAINT uq_code UNIQUE (code))",
    "CREATE TABLE child (a int NOT NULL, b int NOT NULL, parent_id int NULL, \
     PRIMARY KEY (a, b DESC), CONSTRAINT fk_child FOREIGN KEY (parent_id) REFERENCES parent (id) \
     ON DELETE CASCADE)",
    "CREATE INDEX ix_child ON child (parent_id DESC)",
    "CREATE VIEW v AS SELECT id, name FROM parent",
    "CREATE PROCEDURE p @a int, @b nvarchar(10) = N'x' OUTPUT AS RETURN 0",
];

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    for batch in SCHEMA {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    session
}

fn check(cases: &[(&str, &str)]) {
    let server = Server::new();
    let mut session = made(&server);
    let mut wrong = Vec::new();
    for (batch, expected) in cases {
        let found = rows(&mut *session, batch);
        if found != *expected {
            wrong.push(format!("{batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions() {
    check(&[
        ("SELECT OBJECT_NAME(OBJECT_ID('dbo.parent')), OBJECT_ID('nix')", "'parent' | NULL"),
        (
            "SELECT OBJECT_SCHEMA_NAME(OBJECT_ID('[dbo].[child]')), COL_NAME(OBJECT_ID('child'), \
             2)",
            "'dbo' | 'b'",
        ),
        (
            "SELECT IIF(OBJECT_ID('parent', 'V') IS NULL, 1, 0), IIF(OBJECT_ID('v', 'V') > 0, 1, \
             0)",
            "1 | 1",
        ),
        (
            "SELECT COL_LENGTH('parent', 'name'), COLUMNPROPERTY(OBJECT_ID('parent'), 'id', \
             'IsIdentity'), OBJECTPROPERTY(OBJECT_ID('parent'), 'TableHasPrimaryKey'), \
             OBJECTPROPERTY(OBJECT_ID('p'), 'IsProcedure')",
            "80 | 1 | 1 | 1",
        ),
        (
            "SELECT IDENT_CURRENT('parent'), IDENT_SEED('parent'), IDENT_INCR('child'); \
             INSERT parent (code) VALUES ('a'), (NULL); SELECT IDENT_CURRENT('parent')",
            "1 | 1 | NULL\n2",
        ),
        // over columns, inside of the query
        (
            "SELECT DB_NAME(database_id), HAS_DBACCESS(name) FROM sys.databases WHERE name = \
             'msdb'",
            "'msdb' | 1",
        ),
        (
            "SELECT OBJECT_NAME(object_id), SCHEMA_NAME(schema_id) FROM sys.tables ORDER BY 1",
            "'child' | 'dbo'\n'parent' | 'dbo'",
        ),
        (
            "SELECT name, TYPE_NAME(user_type_id), COLUMNPROPERTY(object_id, name, 'AllowsNull') \
             FROM sys.columns WHERE OBJECT_NAME(object_id) = 'parent' ORDER BY column_id",
            "'id' | 'int' | 0\n'code' | 'char' | 1\n'name' | 'nvarchar' | 0\n\
             'price' | 'decimal' | 1",
        ),
        ("SELECT name, IDENT_CURRENT(name) FROM sys.tables WHERE name = 'parent'", "'parent' | 2"),
        ("CREATE TABLE #t (a int); SELECT IIF(OBJECT_ID('tempdb..#t') > 0, 1, 0)", "1"),
        (
            "SELECT OBJECT_DEFINITION(OBJECT_ID('v'))",
            "'CREATE VIEW v AS SELECT id, name FROM parent'",
        ),
        ("SELECT OBJECT_ID('other.dbo.parent')", "NULL"),
    ]);
}

#[test]
fn views() {
    check(&[
        (
            "SELECT name, type, parent_object_id FROM sys.objects WHERE parent_object_id = 0 \
             ORDER BY name",
            "'child' | 'U ' | 0\n'p' | 'P ' | 0\n'parent' | 'U ' | 0\n'v' | 'V ' | 0",
        ),
        (
            "SELECT i.name, i.index_id, i.type_desc, i.is_unique, i.is_primary_key, c.name, \
             ic.is_descending_key FROM sys.indexes i LEFT JOIN sys.index_columns ic ON \
             ic.object_id = i.object_id AND ic.index_id = i.index_id LEFT JOIN sys.columns c ON \
             c.object_id = ic.object_id AND c.column_id = ic.column_id WHERE i.object_id = \
             OBJECT_ID('parent') ORDER BY i.index_id",
            "'pk_parent' | 1 | 'CLUSTERED' | 1 | 1 | 'id' | 0\n\
             'uq_code' | 2 | 'NONCLUSTERED' | 1 | 0 | 'code' | 0",
        ),
        (
            "SELECT f.name, OBJECT_NAME(f.parent_object_id), OBJECT_NAME(f.referenced_object_id), \
             f.delete_referential_action_desc, c.parent_column_id, c.referenced_column_id FROM \
             sys.foreign_keys f JOIN sys.foreign_key_columns c ON c.constraint_object_id = \
             f.object_id",
            "'fk_child' | 'child' | 'parent' | 'CASCADE' | 3 | 1",
        ),
        (
            "SELECT name, definition FROM sys.check_constraints UNION ALL SELECT name, definition \
             FROM sys.default_constraints",
            "'positive' | '(price > 0)'\n'df_name' | '(N'x')'",
        ),
        (
            "SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS \
             WHERE TABLE_NAME = 'parent' ORDER BY 1",
            "'pk_parent' | 'PRIMARY KEY'\n'positive' | 'CHECK'\n'uq_code' | 'UNIQUE'",
        ),
        (
            "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION FROM \
             INFORMATION_SCHEMA.KEY_COLUMN_USAGE WHERE TABLE_NAME = 'child' ORDER BY 2",
            "'child' | 'a' | 1\n'child' | 'b' | 2\n'child' | 'parent_id' | 1",
        ),
        (
            "SELECT CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE FROM \
             INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS",
            "'fk_child' | 'pk_parent' | 'CASCADE' | 'NO ACTION'",
        ),
        (
            "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, \
             NUMERIC_SCALE, IS_NULLABLE, COLUMN_DEFAULT FROM INFORMATION_SCHEMA.COLUMNS WHERE \
             TABLE_NAME = 'parent' ORDER BY ORDINAL_POSITION",
            "'id' | 'int' | NULL | 10 | 0 | 'NO' | NULL\n\
             'code' | 'char' | 3 | NULL | NULL | 'YES' | NULL\n\
             'name' | 'nvarchar' | 40 | NULL | NULL | 'NO' | '(N'x')'\n\
             'price' | 'decimal' | NULL | 10 | 2 | 'YES' | NULL",
        ),
        (
            "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'v'",
            "'id'\n'name'",
        ),
        (
            "SELECT name, system_type_id, is_output FROM sys.parameters ORDER BY parameter_id",
            "'@a' | 56 | 0\n'@b' | 231 | 1",
        ),
        ("SELECT seed_value, increment_value FROM sys.identity_columns", "1 | 1"),
        ("SELECT COUNT(*) FROM sys.types WHERE name IN ('int', 'sysname', 'xml')", "3"),
        // a view's names are resolved in its own database
        ("SELECT TABLE_CATALOG, TABLE_NAME FROM other.INFORMATION_SCHEMA.TABLES", ""),
        ("USE other; SELECT COUNT(*) FROM app.INFORMATION_SCHEMA.TABLES", SWITCHED),
    ]);
}

const SWITCHED: &str =
    "~ database other\n! 5701/0/1 line 1: Changed database context to 'other'.\n3";

#[test]
fn sqlalchemy() {
    check(&[
        ("SELECT schema_name()", "'dbo'"),
        (
            "SELECT name FROM sys.system_views WHERE name IN ('dm_exec_sessions', \
             'dm_pdw_nodes_exec_sessions')",
            "'dm_exec_sessions'",
        ),
        (
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT CASE transaction_isolation_level \
             WHEN 0 THEN NULL WHEN 2 THEN 'READ COMMITTED' WHEN 4 THEN 'SERIALIZABLE' END AS \
             TRANSACTION_ISOLATION_LEVEL FROM sys.dm_exec_sessions where session_id = @@SPID",
            "'SERIALIZABLE'",
        ),
        (
            "SELECT [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME] FROM [INFORMATION_SCHEMA].[TABLES] \
             WHERE ([INFORMATION_SCHEMA].[TABLES].[TABLE_TYPE] = CAST('BASE TABLE' AS \
             NVARCHAR(max)) OR [INFORMATION_SCHEMA].[TABLES].[TABLE_TYPE] = CAST('VIEW' AS \
             NVARCHAR(max))) AND [INFORMATION_SCHEMA].[TABLES].[TABLE_NAME] = CAST('parent' AS \
             NVARCHAR(max)) AND [INFORMATION_SCHEMA].[TABLES].[TABLE_SCHEMA] = CAST('dbo' AS \
             NVARCHAR(max))",
            "'parent'",
        ),
        (
            "select ind.index_id, ind.is_unique, ind.name, ind.type, ind.filter_definition from \
             sys.indexes as ind join sys.tables as tab on ind.object_id = tab.object_id join \
             sys.schemas as sch on sch.schema_id = tab.schema_id where tab.name='child' and \
             sch.name='dbo' and ind.is_primary_key=0 and ind.type != 0 order by ind.name",
            "2 | 0 | 'ix_child' | 2 | NULL",
        ),
        (
            "CREATE TABLE made (id INTEGER NOT NULL IDENTITY, name VARCHAR(50) NULL, PRIMARY KEY \
             (id), UNIQUE (name)); INSERT INTO made (name) OUTPUT inserted.id, inserted.id AS \
             id__1 \
             SELECT p0 FROM (VALUES ('b', 0), ('a', 1), (NULL, 2)) AS imp_sen(p0, sen_counter) \
             ORDER \
             BY sen_counter",
            "1 | 1\n2 | 2\n3 | 3",
        ),
    ]);
}

/// The name of a procedure, its arguments, and lines of its answer.
const PROCEDURES: &[(&str, &[&str])] = &[
    (
        "sp_tables @table_type = '''TABLE'''",
        &[
            "# TABLE_QUALIFIER:NVarChar(Of(128)) | TABLE_OWNER:NVarChar(Of(128)) | \
             TABLE_NAME:NVarChar(Of(128)) | TABLE_TYPE:VarChar(Of(32)) | REMARKS:VarChar(Of(254))",
            "'app' | 'dbo' | 'child' | 'TABLE' | NULL",
            "'app' | 'dbo' | 'parent' | 'TABLE' | NULL",
        ],
    ),
    ("sp_tables N'', N'', N'%', NULL", &["'master' | NULL | NULL | NULL | NULL"]),
    (
        "[app].sys.sp_tables 'par%', 'dbo', 'app', '''TABLE'',''VIEW'''",
        &["'app' | 'dbo' | 'parent' | 'TABLE' | NULL"],
    ),
    (
        "sp_columns_100 N'parent', N'dbo', NULL, N'name', @ODBCVer = 3",
        &["'app' | 'dbo' | 'parent' | 'name' | -9 | 'nvarchar' | 40 | 80 | NULL | NULL | 0 | \
             NULL \
             | '(N'x')' | -9 | NULL | 80 | 3 | 'NO' | 0 | 0 | 0 | 0 | NULL | NULL | NULL | NULL | \
             NULL | NULL | 39"],
    ),
    (
        "sp_columns 'parent', NULL, NULL, 'id'",
        &["'app' | 'dbo' | 'parent' | 'id' | 4 | 'int identity' | 10 | 4 | 0 | 10 | 0 | NULL | \
             NULL | \
           4 | NULL | NULL | 1 | 'NO' | 56"],
    ),
    (
        "sp_pkeys 'child'",
        &["'app' | 'dbo' | 'child' | 'a' | 1 | ", "'app' | 'dbo' | 'child' | 'b' | 2 | "],
    ),
    (
        "sp_fkeys @pktable_name = 'parent'",
        &["'app' | 'dbo' | 'parent' | 'id' | 'app' | 'dbo' | 'child' | 'parent_id' | 1 | 1 | 0 | \
           'fk_child' | 'pk_parent' | 7"],
    ),
    (
        "sp_statistics_100 'child'",
        &[
            "'app' | 'dbo' | 'child' | NULL | NULL | NULL | 0 | NULL | NULL | NULL",
            "'app' | 'dbo' | 'child' | 1 | 'child' | 'ix_child' | 3 | 1 | 'parent_id' | 'D'",
        ],
    ),
    (
        "sp_special_columns_100 N'parent', N'dbo', NULL, 'R', 'T', 'U', 3",
        &["1 | 'id' | 4 | 'int identity' | 10 | 4 | 0 | 1"],
    ),
    ("sp_stored_procedures", &["'app' | 'dbo' | 'p;1' | -1 | -1 | -1 | NULL | 2"]),
    (
        "sp_sproc_columns_100 'p', @ODBCVer = 3",
        &[
            "'app' | 'dbo' | 'p;1' | '@RETURN_VALUE' | 5 | 4 | 'int' | 10 | 4",
            "'app' | 'dbo' | 'p;1' | '@a' | 1 | 4 | 'int' | 10 | 4",
            "'app' | 'dbo' | 'p;1' | '@b' | 2 | -9 | 'nvarchar' | 10 | 20",
        ],
    ),
    ("sp_databases", &["'master' | NULL | NULL"]),
    (
        "sp_datatype_info_100 -9, @ODBCVer = 3",
        &["'nvarchar' | -9 | 4000 | 'N'' | ''' | 'max length' | 1 | 0 | 3"],
    ),
    ("sp_helptext 'v'", &["'CREATE VIEW v AS SELECT id, name FROM parent'"]),
    (
        "sp_describe_first_result_set N'SELECT id, name AS n FROM parent'",
        &[
            "0 | 1 | 'id' | 0 | 56 | 'int' | 4 | 10 | 0 | NULL",
            "0 | 2 | 'n' | 0 | 231 | 'nvarchar(40)' | 80 | 0 | 0 | 'SQL_Latin1_General_CP1_CI_AS'",
        ],
    ),
    (
        "sp_describe_undeclared_parameters N'INSERT INTO parent (name, price) VALUES (@P1, @P2)'",
        &[
            "1 | '@P1' | 231 | 'nvarchar(40)' | 80 | 0 | 0",
            "2 | '@P2' | 106 | 'decimal(10,2)' | 9 | 10 | 2",
        ],
    ),
    (
        "sp_describe_undeclared_parameters N'UPDATE parent SET code = @a WHERE id = @b AND name \
         LIKE @c'",
        &[
            "1 | '@a' | 175 | 'char(3)'",
            "2 | '@b' | 56 | 'int'",
            "3 | '@c' | 231 | 'nvarchar(4000)'",
        ],
    ),
    ("sp_describe_undeclared_parameters N'SELECT @p'", &["! 11503/16/1"]),
    // in any statement
    (
        "sp_describe_undeclared_parameters N'IF 1 = 1 UPDATE parent SET code = @a'",
        &["1 | '@a' | 175 | 'char(3)'"],
    ),
    (
        "sp_describe_first_result_set N'IF 1 = 0 SET NOCOUNT ON ELSE BEGIN TRY SELECT id FROM \
         parent END TRY BEGIN CATCH THROW END CATCH'",
        &["0 | 1 | 'id' | 0 | 56 | 'int'"],
    ),
    (
        "sp_describe_undeclared_parameters N'SELECT id FROM v WHERE id = @p OR id = @p'",
        &["! 11508/16/1"],
    ),
];

#[test]
fn catalog_procedures() {
    let server = Server::new();
    let mut session = made(&server);
    let mut wrong = Vec::new();
    for (call, expected) in PROCEDURES {
        let lines = run(&mut *session, &format!("EXEC {call}"));
        for expected in *expected {
            if !lines.iter().any(|line| line.starts_with(expected)) {
                wrong.push(format!("{call}\n  expected: {expected}\n  found:    {lines:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_view_and_procedure_of_the_list_answers() {
    let server = Server::new();
    let mut session = made(&server);
    let listed = tdekit_wire_tsql::coverage();
    for view in listed.views {
        let found = rows(&mut *session, &format!("SELECT * FROM {view}"));
        assert!(!found.contains("! "), "{view}: {found}");
    }
    for procedure in listed.procedures {
        let found = rows(&mut *session, &format!("EXEC {procedure}"));
        assert!(!found.contains("! 2812/"), "{procedure}: {found}");
    }
}

#[test]
fn a_plan_belongs_to_its_database() {
    let server = Server::new();
    let mut s = server.session();
    rows(&mut *s, "CREATE TABLE t (a int); INSERT t VALUES (1)");
    rows(&mut *s, "CREATE TABLE other.dbo.t (a int); INSERT other.dbo.t VALUES (2)");
    let query = "SELECT a FROM t";
    assert_eq!(rows(&mut *s, query), "1");
    rows(&mut *s, "USE other");
    assert_eq!(rows(&mut *s, query), "2");
    rows(&mut *s, "CREATE PROCEDURE q AS SELECT a FROM t");
    rows(&mut *s, "CREATE VIEW w AS SELECT a FROM t");
    rows(&mut *s, "USE app");
    assert_eq!(rows(&mut *s, query), "1");
    assert_eq!(rows(&mut *s, "EXEC other.dbo.q"), "2\nstatus 0");
    assert_eq!(rows(&mut *s, "SELECT a FROM other.dbo.w"), "2");
    // USE inside of a text ends with it
    let found =
        rows(&mut *s, "EXEC('USE other; SELECT a FROM t'); SELECT a FROM t, (SELECT 1 x) y");
    assert!(found.ends_with("\n1") && found.contains("\n2\n"), "{found}");
    s.reset(false, &mut crate::common::Log::default());
    assert_eq!(rows(&mut *s, query), "1");
}

#[test]
fn other_sessions_are_seen_at_work() {
    let server = Server::new();
    let (mut a, mut b) = (server.session(), server.session());
    let waiting = std::thread::spawn(move || {
        rows(&mut *b, "WAITFOR DELAY '00:00:02'");
    });
    let asked = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE command = 'WAITFOR' AND status = \
        'suspended' AND wait_type = 'WAITFOR' AND total_elapsed_time >= 0 AND cpu_time < 2000";
    let started = std::time::Instant::now();
    while rows(&mut *a, asked) != "1" && started.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    assert!(started.elapsed().as_secs() < 20);
    assert_eq!(rows(&mut *a, "SELECT COUNT(*) FROM sys.dm_exec_sessions"), "2");
    waiting.join().unwrap();
}

#[test]
fn compatibility_views_need_no_schema() {
    check(&[
        (
            "SELECT name, xtype, type FROM sysobjects WHERE parent_obj = OBJECT_ID('child') ORDER \
             BY xtype",
            "'fk_child' | 'F ' | 'F '\n'PK__child__10B395C4' | 'PK' | 'K '",
        ),
        ("SELECT COUNT(*) FROM SysObjects WHERE xtype = 'U'", "2"),
        ("SELECT COUNT(*) FROM dbo.sysobjects WHERE xtype = 'U'", "2"),
        ("SELECT COUNT(*) FROM sys.sysobjects WHERE xtype = 'U'", "2"),
        ("SELECT COUNT(*) FROM other..sysobjects", "0"),
        ("SELECT o.name FROM other..sysobjects AS o; SELECT COUNT(*) FROM app..sysobjects", "10"),
        (
            "IF EXISTS (SELECT 1 FROM sysobjects WHERE id = OBJECT_ID('parent')) SELECT 'there'",
            "'there'",
        ),
        (
            "SELECT name, xtype, length, colid, isnullable FROM syscolumns WHERE id = \
             OBJECT_ID('parent') ORDER BY colid",
            "'id' | 56 | 4 | 1 | 0\n'code' | 175 | 3 | 2 | 1\n'name' | 231 | 80 | 3 | 0\n\
             'price' | 106 | 9 | 4 | 1",
        ),
        (
            "SELECT name, number, isoutparam FROM syscolumns WHERE id = OBJECT_ID('p') ORDER BY \
             colid",
            "'@a' | 1 | 0\n'@b' | 1 | 1",
        ),
        ("SELECT dbid FROM master..sysdatabases WHERE name = 'app'", "5"),
        ("SELECT dbid FROM master.dbo.sysdatabases WHERE name = 'app'", "5"),
        ("SELECT name FROM tempdb..sysdatabases WHERE dbid = 1", "'master'"),
        ("SELECT IIF(OBJECT_ID('sysobjects') = OBJECT_ID('sys.sysobjects'), 1, 0)", "1"),
        // a common table expression's name takes precedence
        ("WITH sysobjects AS (SELECT 1 AS a) SELECT * FROM sysobjects", "1"),
        ("SELECT COUNT(*) FROM msdb..backupset", "3"),
        ("SELECT COUNT(*) FROM msdb.dbo.backupset", "3"),
    ]);
    let server = Server::new();
    let mut session = made(&server);
    let taken = rows(&mut *session, "CREATE TABLE sysobjects (a int)");
    assert!(taken.starts_with("! 2714/16/6"), "{taken}");
    assert!(rows(&mut *session, "SELECT * FROM sysnothing").starts_with("! 208/16/1"));
    // through a view of another database
    rows(&mut *session, "USE other");
    rows(&mut *session, "CREATE VIEW w AS SELECT COUNT(*) AS n FROM sysobjects WHERE xtype = 'U'");
    rows(&mut *session, "USE app");
    assert_eq!(rows(&mut *session, "SELECT n FROM other.dbo.w"), "0");
}
