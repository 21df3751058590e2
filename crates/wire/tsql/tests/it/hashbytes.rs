//! HASHBYTES: its arguments, and where it is called. The host of the tests shows what it is asked.

use crate::common::check;

#[test]
fn hashbytes_asks_the_host_for_a_digest_of_the_bytes() {
    let shown = |algorithm: &str, value: &str| {
        format!("SELECT CONVERT(varchar(99), HASHBYTES({algorithm}, {value}), 2)")
    };
    let bytes = |name: &str, value: &[u8]| {
        let all = [name.as_bytes(), b" ", value].concat();
        format!("'{}'", all.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
    };
    let mut cases = Vec::new();
    for (algorithm, name) in [
        ("'MD5'", "Md5"),
        ("N'sha1 '", "Sha1"),
        ("'SHA'", "Sha1"),
        ("'SHA2_256'", "Sha256"),
        ("'sha2_512'", "Sha512"),
    ] {
        cases.push((shown(algorithm, "'a\u{20ac}'"), bytes(name, b"a\x80")));
        cases.push((shown(algorithm, "N'a\u{20ac}'"), bytes(name, b"a\0\xac\x20")));
        cases.push((shown(algorithm, "0x0102"), bytes(name, &[1, 2])));
        cases.push((shown(algorithm, "CAST('a' AS char(3))"), bytes(name, b"a  ")));
        cases.push((shown(algorithm, "''"), bytes(name, b"")));
        cases.push((shown(algorithm, "CAST(NULL AS varchar(9))"), "NULL".to_owned()));
    }
    for (algorithm, value, expected) in [
        ("'MD6'", "'a'", "NULL"),
        ("CAST(NULL AS varchar(9))", "'a'", "NULL"),
        ("'MD2'", "'a'", "! 40512/16/1"),
        ("'md4'", "'a'", "! 40512/16/1"),
        ("'MD5'", "1", "! 8116/16/1 line 1: Argument data type int is invalid for argument 2 of"),
        ("'MD5'", "NULL", "! 8116/16/1 line 1: Argument data type NULL is invalid for argument 2"),
        (
            "0x01",
            "'a'",
            "! 8116/16/1 line 1: Argument data type varbinary is invalid for argument 1",
        ),
        ("'MD5'", "CAST('a' AS text)", "! 8116/16/1"),
        ("'MD5'", "GETDATE()", "! 8116/16/1"),
        ("'MD5'", "'a', 'b'", "! 174/15/1"),
    ] {
        cases.push((shown(algorithm, value), expected.to_owned()));
    }
    // over columns, in WHERE, in an index of rows, in a computed column, by a variable
    let batch = "CREATE TABLE t (a nvarchar(9), h varbinary(20), c AS HASHBYTES('MD5', a)); INSERT \
        t VALUES ('x', HASHBYTES('SHA1', 'x')), ('y', NULL); DECLARE @d varchar(9) = 'SHA1'; \
        SELECT a, CAST(HASHBYTES(@d, CAST(a AS varchar(9))) AS varchar(9)), CAST(c AS varchar(9)) \
        FROM t WHERE h = HASHBYTES(@d, CAST(a AS varchar(9))); SET @d = CAST(HASHBYTES('MD5', @d) \
        AS varchar(9)); SELECT @d, DATALENGTH(HASHBYTES('MD5', REPLICATE(CAST('a' AS \
        varchar(max)), 10000)))";
    cases.push((batch.to_owned(), "'x' | 'Sha1 x' | 'Md5 x\0'\n'Md5 SHA1' | 10004".to_owned()));
    let cases: Vec<_> = cases.iter().map(|(batch, found)| (&**batch, &**found)).collect();
    check(&cases);
}
