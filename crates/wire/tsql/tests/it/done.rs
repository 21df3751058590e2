//! Statements that get a DONE, with or without a count: clients take a message followed by a DONE
//! for a separate result.

use crate::common::{Log, Server, run};
use tdekit_wire_tds::Session;

/// Returns the results of a batch; a DONE without a count is a dash.
fn told(session: &mut dyn Session, text: &str) -> Vec<String> {
    let mut log = Log { each_done: true, ..Log::default() };
    session.batch(text, &mut log);
    log.lines
}

#[test]
fn statements_of_a_batch_are_told_of_and_declarations_are_not() {
    let server = Server::new();
    let cases: [(&str, &[&str]); 7] = [
        ("PRINT 'a'; SELECT 1 AS x", &["! 0/0/1 line 1: a", "-", "# x:Int", "1", "(1)"]),
        ("DECLARE @x int = 1; SELECT @x AS x", &["# x:Int", "1", "(1)"]),
        (
            "DECLARE @x int; SET @x = 2; SELECT @x = @x + 1; SELECT @@ROWCOUNT AS n, @x AS x",
            &["-", "-", "# n:Int | x:Int", "1 | 3", "(1)"],
        ),
        (
            "DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2); SELECT a FROM @t",
            &["(2)", "# a:Int", "1", "2", "(2)"],
        ),
        (
            "SET NOCOUNT ON; PRINT 'a'; SELECT 1 AS x",
            &["-", "! 0/0/1 line 1: a", "-", "# x:Int", "1", "-"],
        ),
        ("SET NOCOUNT ON; DECLARE @t TABLE (a int); INSERT @t VALUES (1)", &["-", "-"]),
        (
            "RAISERROR('x', 10, 1); SELECT 1 AS x",
            &["! 50000/0/1 line 1: x", "-", "# x:Int", "1", "(1)"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(told(&mut *server.session(), text), expected, "{text}");
    }
}

#[test]
fn nocount_in_a_procedure_leaves_results_and_errors() {
    let server = Server::new();
    let mut session = server.session();
    run(
        &mut *session,
        "CREATE PROCEDURE said AS BEGIN SET NOCOUNT ON; DECLARE @t TABLE (a int); PRINT '1a'; \
        PRINT '1b'; INSERT @t VALUES (1); SELECT a FROM @t; SELECT 2 AS b; \
        INSERT @t OUTPUT inserted.a VALUES (3); PRINT '2a'; PRINT '2b' END",
    );
    let (first, second) = ("! 0/0/1 line 1: 1a", "! 0/0/1 line 1: 1b");
    let (third, fourth) = ("! 0/0/1 line 1: 2a", "! 0/0/1 line 1: 2b");
    let results = ["# a:Int", "1", "-", "# b:Int", "2", "-", "# a:Int", "3", "-"];
    let expected = [&[first, second][..], &results, &[third, fourth, "status 0", "-"]].concat();
    assert_eq!(told(&mut *session, "EXEC said"), expected);
    // Errors are reported, and so are the statements after them.
    run(
        &mut *session,
        "CREATE PROCEDURE failed AS SET NOCOUNT ON; RAISERROR('x', 16, 1); SELECT 1/0; \
        SELECT 2 AS b",
    );
    let found = told(&mut *session, "EXEC failed");
    let shape: Vec<&str> = found.iter().map(|line| line.get(..3).unwrap_or(line)).collect();
    assert_eq!(shape[..2], ["! 5", "-"], "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("! 8134/")), "{found:?}");
    assert_eq!(shape[shape.len() - 5..], ["# b", "2", "-", "sta", "-"], "{found:?}");
}

#[test]
fn what_runs_here_is_told_to_tools() {
    let server = Server::new();
    let mut session = server.session();
    let found = run(&mut *session, "EXEC master..xp_msver 'ProductVersion'");
    let version = tdekit_wire_tds::product::VERSION;
    assert_eq!(found[1], format!("2 | 'ProductVersion' | 983040 | '{version}'"));
    assert_eq!(
        run(&mut *session, "EXEC xp_msver").iter().filter(|l| l.contains(" | ")).count(),
        21
    );
}
