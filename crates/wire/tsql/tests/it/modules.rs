//! Rules of procedures, functions, views and triggers.

use crate::common::{Server, rows};
use crate::constraints::{bad, good};

#[test]
fn a_parameter_has_one_definition() {
    let server = Server::new();
    let mut session = server.session();
    bad(
        &mut *session,
        &[
            ("CREATE PROCEDURE p @a int, @b int, @A int AS SELECT 1", "134/15/1"),
            (
                "CREATE FUNCTION f (@a int, @a bigint) RETURNS TABLE AS RETURN SELECT 1 AS x",
                "134/15/1",
            ),
        ],
    );
    good(&mut *session, &[("SELECT COUNT(*) FROM sys.objects WHERE name IN ('p', 'f')", "0")]);
}
