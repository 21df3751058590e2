//! Recursive common table expressions: what their recursion has to do with, and what not.

use crate::common::{Server, check, rows};

#[test]
fn a_select_that_assigns_has_a_limit() {
    check(&[(
        "DECLARE @n int; WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) \
         SELECT @n = COUNT(*) FROM n OPTION (MAXRECURSION 0); SELECT @n",
        "150",
    )]);
}

/// That of a statement in a function is not that of the statement around it.
#[test]
fn a_limit_is_that_of_its_statement() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE FUNCTION far () RETURNS int AS BEGIN DECLARE @n int; WITH n (i) AS (SELECT \
                1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) SELECT @n = MAX(i) FROM n OPTION \
                (MAXRECURSION 200); RETURN @n END";
    assert_eq!(rows(&mut *session, made), "");
    assert_eq!(rows(&mut *session, "SELECT dbo.far()"), "150");
    let around = "WITH n (i) AS (SELECT dbo.far() UNION ALL SELECT i + 1 FROM n WHERE i < 300) \
                  SELECT COUNT(*) FROM n";
    let found = rows(&mut *session, around);
    assert!(found.starts_with("! 530/16/1"), "{found}");
}

#[test]
fn subqueries_of_a_member_have_no_part_in_it() {
    check(&[
        (
            "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < (SELECT 3)) SELECT \
             SUM(i) FROM n",
            "6",
        ),
        (
            "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3 AND EXISTS (SELECT \
             DISTINCT TOP (1) 1 AS a)) SELECT SUM(i) FROM n",
            "6",
        ),
        (
            "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + (SELECT 1) FROM n WHERE i IN (SELECT a \
             FROM (VALUES (1), (2)) v(a) GROUP BY ROLLUP (a))) SELECT SUM(i) FROM n",
            "6",
        ),
    ]);
}
