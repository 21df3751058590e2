//! FORMAT.

use crate::common::{Server, check, rows};

/// Checks that each call of FORMAT gives this text; an empty one stands for NULL.
fn gives(cases: &[(&str, &str)]) {
    let server = Server::new();
    let mut session = server.session();
    let mut wrong = Vec::new();
    for (args, expected) in cases {
        let found = rows(&mut *session, &format!("SELECT FORMAT({args})"));
        let wanted = match *expected {
            "" => "NULL".to_owned(),
            text => format!("'{text}'"),
        };
        if found != wanted {
            wrong.push(format!("{args}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers_by_standard_specifiers() {
    gives(&[
        ("1234.5678, 'N'", "1,234.57"),
        ("-1234567, 'n0'", "-1,234,567"),
        ("123, 'N1'", "123.0"),
        ("999.995, 'N2'", "1,000.00"),
        ("0.125, 'F2'", "0.13"),
        ("-0.001, 'N2'", "0.00"),
        ("0.001, 'F5'", "0.00100"),
        ("2.5E0, 'F0'", "3"),
        ("123456789012345678E0, 'N0'", "123,456,789,012,346,000"),
        ("CAST(0.1 AS real), 'F10'", "0.1000000000"),
        ("1234.5, 'C'", "$1,234.50"),
        ("-1234.5, 'C', 'en-US'", "($1,234.50)"),
        ("CAST(12.3456 AS money), 'C4'", "$12.3456"),
        ("5, 'C', ''", "¤5.00"),
        ("0.12345, 'P'", "12.35%"),
        ("-1.5, 'P0'", "-150%"),
        ("0, 'P'", "0.00%"),
        ("0.5, 'P', 'iv'", "50.00 %"),
        ("123, 'D6'", "000123"),
        ("-123, 'd'", "-123"),
        ("0, 'D3'", "000"),
        ("12.0, 'D'", ""),
        ("255, 'X'", "FF"),
        ("255, 'x4'", "00ff"),
        ("-1, 'X'", "FFFFFFFF"),
        ("CAST(-2 AS smallint), 'X'", "FFFE"),
        ("CAST(-9223372036854775807 AS bigint) - 1, 'X'", "8000000000000000"),
        ("CAST(-9223372036854775807 AS bigint) - 1, 'G'", "-9223372036854775808"),
        ("0, 'X'", "0"),
        ("1234.5, 'E'", "1.234500E+003"),
        ("0.00012, 'e2'", "1.20e-004"),
        ("0, 'E1'", "0.0E+000"),
        ("CAST(1.50 AS decimal(5,2)), 'G'", "1.50"),
        ("CAST(0 AS decimal(5,2)), ''", "0.00"),
        ("1e20, 'G'", "1E+20"),
        ("1234567890123456789E0, 'G'", "1.23456789012346E+18"),
        ("0.00001E0, 'g'", "1e-05"),
        ("0.0001E0, 'G'", "0.0001"),
        ("1234.5, 'G3'", "1.23E+03"),
        ("12.345, 'G3'", "12.3"),
        ("1, 'Z'", ""),
        ("NULL, 'N'", ""),
        ("1, NULL", ""),
        (
            "CAST('99999999999999999999999999999999' AS decimal(38, 5)), 'N0'",
            "99,999,999,999,999,999,999,999,999,999,999",
        ),
    ]);
}

#[test]
fn numbers_by_patterns() {
    gives(&[
        ("1234.5, '#,##0.00'", "1,234.50"),
        ("0.5, '#,##0.00'", "0.50"),
        ("1234567890, '#,#'", "1,234,567,890"),
        ("123456789, '###-##-####'", "123-45-6789"),
        ("5, '000'", "005"),
        ("5, '000.##'", "005"),
        ("5.5, '000.##'", "005.5"),
        ("0.5, '#.##'", ".5"),
        ("1234.567, '0'", "1235"),
        ("-5, '0;(0)'", "(5)"),
        ("-5, '0'", "-5"),
        ("-5, '0;;zero'", "-5"),
        ("0, '0;-0;zero'", "zero"),
        ("0.1, '0;-0;zero'", "zero"),
        ("-0.1, '0;(0)'", "0"),
        ("1234567, '#,##0,K'", "1,235K"),
        ("1234567890, '0,,.0M'", "1234.6M"),
        ("0.256, '0.0%'", "25.6%"),
        ("0.0256, '0.0‰'", "25.6‰"),
        ("12345, '0.00E+0'", "1.23E+4"),
        ("0.00012, '0.0e000'", "1.2e-004"),
        ("12345, '00.0E0'", "12.3E3"),
        ("1234, '\\#0'", "#1234"),
        ("1234, '0 \"units; 0\"'", "1234 units; 0"),
        ("1234, '$#,0'", "$1,234"),
        ("12, 'Total 0'", "Total 12"),
        ("1, '0.0.0'", "1.00"),
        ("12345678, '(000) 000-0000'", "(001) 234-5678"),
        ("-1234.5, '#,##0.00;[#,##0.0]'", "[1,234.5]"),
    ]);
}

#[test]
fn dates_by_standard_specifiers() {
    let server = Server::new();
    let mut session = server.session();
    let day = "CAST('2024-02-05T13:04:09.1234567' AS datetime2)";
    let mut wrong = Vec::new();
    for (letter, american, invariant) in [
        ("d", "2/5/2024", "02/05/2024"),
        ("D", "Monday, February 5, 2024", "Monday, 05 February 2024"),
        ("t", "1:04 PM", "13:04"),
        ("T", "1:04:09 PM", "13:04:09"),
        ("f", "Monday, February 5, 2024 1:04 PM", "Monday, 05 February 2024 13:04"),
        ("F", "Monday, February 5, 2024 1:04:09 PM", "Monday, 05 February 2024 13:04:09"),
        ("g", "2/5/2024 1:04 PM", "02/05/2024 13:04"),
        ("G", "2/5/2024 1:04:09 PM", "02/05/2024 13:04:09"),
        ("", "2/5/2024 1:04:09 PM", "02/05/2024 13:04:09"),
        ("M", "February 5", "February 05"),
        ("y", "February 2024", "2024 February"),
        ("s", "2024-02-05T13:04:09", "2024-02-05T13:04:09"),
        ("u", "2024-02-05 13:04:09Z", "2024-02-05 13:04:09Z"),
        ("o", "2024-02-05T13:04:09.1234567", "2024-02-05T13:04:09.1234567"),
        ("r", "Mon, 05 Feb 2024 13:04:09 GMT", "Mon, 05 Feb 2024 13:04:09 GMT"),
    ] {
        let text = format!(
            "SELECT FORMAT({day}, '{letter}'), FORMAT({day}, '{letter}', 'en-us'), FORMAT({day}, \
             '{letter}', '')"
        );
        let found = rows(&mut *session, &text);
        let wanted = format!("'{american}' | '{american}' | '{invariant}'");
        if found != wanted {
            wrong.push(format!("{letter}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gives(&[
        ("CAST('2024-02-05' AS date), 'G'", "2/5/2024 12:00:00 AM"),
        ("CAST('2024-02-05T23:59' AS smalldatetime), 't'", "11:59 PM"),
        ("CAST('2024-02-05T00:00:00.003' AS datetime), 'HH:mm:ss.fff'", "00:00:00.003"),
        ("CAST('2024-02-05T01:00:00+03:00' AS datetimeoffset), 'u'", "2024-02-04 22:00:00Z"),
        (
            "CAST('2024-02-05T01:00:00-03:30' AS datetimeoffset(0)), 'o'",
            "2024-02-05T01:00:00.0000000-03:30",
        ),
        ("CAST('2024-02-05' AS date), 'q'", ""),
    ]);
}

#[test]
fn dates_and_times_by_patterns() {
    let server = Server::new();
    let mut session = server.session();
    let mut wrong = Vec::new();
    for (value, pattern, expected) in [
        ("2024-02-05T13:04:09.12", "yyyy-MM-dd HH:mm:ss.fff", "2024-02-05 13:04:09.120"),
        ("2024-02-05T13:04:09.12", "d M yy h:m:s.FFF", "5 2 24 1:4:9.12"),
        ("2024-02-05T13:04:09", "ss.FFF", "09"),
        ("2024-02-05T00:04:09", "hh tt t", "12 AM A"),
        ("2024-02-05", "ddd d MMM", "Mon 5 Feb"),
        ("2024-02-05", "dddd, MMMM", "Monday, February"),
        ("2024-02-05", "%d", "5"),
        ("0987-02-05", "yyy yyyyy y yy", "987 00987 87 87"),
        ("2024-02-05", "'day' d\\d \"yy\"", "day 5d yy"),
        ("2024-02-05T13:04:09", "yyyyMMddHHmmss", "20240205130409"),
        ("2024-02-05T13:04:09", "z zz zzz K", "+0 +00 +00:00 "),
        ("2024-02-05", "MM/dd/yyyy", "02/05/2024"),
        ("2024-02-05", "yyyy 'open", ""),
        ("2024-02-05", "ffffffff", ""),
        ("2024-02-05", "yyyy\\", ""),
        ("2024-02-05", "yyyy%", ""),
    ] {
        let text = format!(
            "SELECT FORMAT(CAST('{value}' AS datetime2), N'{}')",
            pattern.replace('\'', "''")
        );
        let found = rows(&mut *session, &text);
        let wanted = if expected.is_empty() { "NULL".to_owned() } else { format!("'{expected}'") };
        if found != wanted {
            wrong.push(format!("{value} {pattern}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gives(&[
        ("CAST('07:05:09.5' AS time), 'c'", "07:05:09.5000000"),
        ("CAST('07:05' AS time(0)), N'c'", "07:05:00"),
        ("CAST('07:05:09.5' AS time), 'g'", "7:05:09.5"),
        ("CAST('07:05' AS time), 'hh\\:mm'", "07:05"),
        ("CAST('07:05' AS time), 'h\\.m'", "7.5"),
        ("CAST('07:05' AS time), 'hh:mm'", ""),
        ("CAST('07:05' AS time), 'HH'", ""),
    ]);
}

#[test]
fn wrong_values_and_other_cultures_are_refused() {
    check(&[
        (
            "SELECT FORMAT('1', 'N')",
            "! 8116/16/1 line 1: Argument data type varchar is invalid for \
          argument 1 of format function.",
        ),
        ("SELECT FORMAT(CAST(1 AS bit), 'N')", "! 8116/16/1"),
        ("SELECT FORMAT(1)", "! 174/15/1"),
        ("SELECT FORMAT(0, '#')", "''"),
        ("SELECT FORMAT(1, 'N', 'de-DE')", "! 40512/16/1"),
        ("SELECT FORMAT(1E0, 'R')", "! 40512/16/1"),
        ("SELECT FORMAT(n, '000') FROM (VALUES (1), (NULL), (22)) AS v (n)", "'001'\nNULL\n'022'"),
        ("DECLARE @f nvarchar(10) = N'C0'; SELECT FORMAT(12.5, @f)", "'$13'"),
        (
            "SELECT LEN(FORMAT(1, REPLICATE('0', 4000))), LEN(FORMAT(1, \
             REPLICATE(CAST('0' AS varchar(max)), 4001))), LEN(FORMAT(1000, REPLICATE('0', 3999) + \
             ','))",
            "4000 | NULL | 3999",
        ),
    ]);
}
