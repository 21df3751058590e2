//! SET LANGUAGE: names of months and days, the order of dates, the first day of the week.

use crate::common::{Server, rows, run};

/// Checks the last line of each batch, in a session of its own.
fn check_last(cases: &[(&str, &str)]) {
    let server = Server::new();
    for (batch, expected) in cases {
        let found = rows(&mut *server.session(), batch);
        assert_eq!(found.lines().last(), Some(*expected), "{batch}: {found}");
    }
}

#[test]
fn a_language_is_found_by_name_and_alias_and_is_reported() {
    let server = Server::new();
    let mut session = server.session();
    let said = run(&mut *session, "SET LANGUAGE German");
    assert!(said.contains(&"~ language Deutsch after us_english".to_owned()), "{said:?}");
    assert!(said.iter().any(|line| line.contains("5703")), "{said:?}");
    let state = "SELECT @@LANGUAGE, @@LANGID, @@DATEFIRST, \
                 CONVERT(char(8), CAST('03.04.05' AS datetime), 112)";
    for (set, expected) in [
        ("Français", "'Français' | 2 | 1 | '20050403'"),
        ("'british'", "'British' | 23 | 1 | '20050403'"),
        ("[British English]", "'British' | 23 | 1 | '20050403'"),
        ("N'日本語'", "'日本語' | 3 | 7 | '20030405'"),
        ("\"norsk (bokmål)\"", "'norsk (bokmål)' | 33 | 1 | '20050403'"),
        ("ENGLISH", "'us_english' | 0 | 7 | '20050304'"),
    ] {
        run(&mut *session, &format!("SET LANGUAGE {set}"));
        assert_eq!(rows(&mut *session, state), expected, "{set}");
    }
    let unknown = rows(&mut *session, "SET LANGUAGE Klingon");
    assert!(unknown.starts_with("! 2740/"), "{unknown}");
    assert_eq!(rows(&mut *session, "SELECT @@LANGUAGE"), "'us_english'");
    // another order and another first day may be set afterwards, and hold until the next language
    let set = "SET LANGUAGE Italian; SET DATEFORMAT mdy; SET DATEFIRST 3";
    run(&mut *session, set);
    let now = rows(&mut *session, "SELECT @@DATEFIRST, MONTH(CAST('03/04/2024' AS datetime))");
    assert_eq!(now, "3 | 3");
    run(&mut *session, "DECLARE @l nvarchar(9) = N'Italian'; SET LANGUAGE @l");
    assert_eq!(rows(&mut *session, "SELECT @@DATEFIRST"), "1");
}

#[test]
fn a_procedure_keeps_its_language_to_itself() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, "CREATE PROCEDURE p AS SET LANGUAGE Polish");
    let said = run(&mut *session, "EXEC p; SELECT @@LANGUAGE");
    let at = |text: &str| said.iter().position(|line| line == text);
    let into = "~ language polski after us_english";
    let back = "~ language us_english after polski";
    assert!(at(into).is_some() && at(into) < at(back), "{said:?}");
    assert_eq!(rows(&mut *session, "SELECT @@LANGUAGE"), "'us_english'");
}

#[test]
fn months_and_days_have_the_names_of_the_language() {
    let date = "CAST('20240305 13:07' AS datetime)";
    let names = format!(
        "SELECT DATENAME(month, d), DATENAME(weekday, d), CONVERT(varchar(20), d), \
         CONVERT(nvarchar(20), d, 106) FROM (VALUES ({date})) AS t (d)"
    );
    let of = |language: &str, expected: &str| {
        let server = Server::new();
        let mut session = server.session();
        run(&mut *session, &format!("SET LANGUAGE {language}"));
        assert_eq!(rows(&mut *session, &names), expected, "{language}");
    };
    of("us_english", "'March' | 'Tuesday' | 'Mar  5 2024  1:07PM' | '05 Mar 2024'");
    of("German", "'März' | 'Dienstag' | 'Mär  5 2024  1:07PM' | '05 Mär 2024'");
    of("Japanese", "'03' | '火曜日' | '03  5 2024  1:07PM' | '05 03 2024'");
    of("Russian", "'Март' | 'вторник' | '???  5 2024  1:07PM' | '05 мар 2024'");
    check_last(&[
        // of constants too, which are otherwise computed once
        ("SET LANGUAGE German; SELECT CONVERT(varchar(11), CAST(75 AS datetime))", "'Mär 17 1900'"),
        ("SET LANGUAGE German; SELECT MONTH(CAST('3. Dezember 2024' AS date))", "12"),
        ("SET LANGUAGE French; SELECT MONTH(CAST('3 août 2024' AS datetime2(0)))", "8"),
        ("SET LANGUAGE German; SELECT ISDATE('3 May 2024'), ISDATE('3 Mai 2024')", "0 | 1"),
        ("SET LANGUAGE Japanese; SELECT MONTH(CAST('24/02/03' AS date))", "2"),
        (
            "SET LANGUAGE Spanish; PRINT CAST('20240105' AS datetime)",
            "! 0/0/1 line 1: Ene  5 2024 12:00AM",
        ),
    ]);
}

#[test]
fn format_has_the_cultures_of_english_alone() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, "SET LANGUAGE German");
    let texts = ["FORMAT(1234.5, 'N1')", "FORMAT(x, 'N1') FROM (VALUES (1.5)) t (x)"];
    for text in texts.map(|text| format!("SELECT {text}")) {
        let said = rows(&mut *session, &text);
        assert!(said.starts_with("! 40512/") && said.contains("de-DE"), "{said}");
    }
    assert_eq!(rows(&mut *session, "SELECT FORMAT(1234.5, 'N1', 'en-US')"), "'1,234.5'");
    run(&mut *session, "SET LANGUAGE us_english");
    assert_eq!(rows(&mut *session, "SELECT FORMAT(1234.5, 'N1')"), "'1,234.5'");
}

#[test]
fn the_view_has_all_languages() {
    check_last(&[
        ("SELECT COUNT(*), COUNT(DISTINCT lcid) FROM sys.syslanguages", "34 | 34"),
        (
            "SELECT name, dateformat, datefirst, lcid, msglangid, LEFT(shortmonths, 19), days FROM \
             syslanguages WHERE alias = 'Swedish'",
            "'Svenska' | 'ymd' | 1 | 1053 | 1053 | 'jan,feb,mar,apr,maj' | \
             'måndag,tisdag,onsdag,torsdag,fredag,lördag,söndag'",
        ),
        (
            "SELECT alias, msglangid FROM sys.syslanguages WHERE lcid = 2057",
            "'British English' | 1033",
        ),
    ]);
}

/// Source: the documentation of SET DATEFORMAT.
#[test]
fn a_day_follows_the_year_of_a_datetime_where_days_come_first() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "SET DATEFORMAT dmy");
    let months = "SELECT MONTH(CAST('2001-02-03' AS datetime)), MONTH(CAST('2001/02/03 10:00' AS \
        smalldatetime)), MONTH(CAST('2001-02-03T10:00:00' AS datetime)), MONTH(CAST('20010203' AS \
        datetime)), MONTH(CAST('2001-02-03' AS date)), MONTH(CAST('2001-02-03' AS datetime2)), \
        MONTH(CONVERT(datetime, '2001-02-03', 120)), ISDATE('2024-12-31'), ISDATE('2024-31-12')";
    assert_eq!(rows(&mut *session, months), "3 | 3 | 2 | 2 | 2 | 2 | 2 | 0 | 1");
}

#[test]
fn options_take_values_of_variables() {
    let server = Server::new();
    let mut session = server.session();
    let set = "DECLARE @f char(3) = 'dmy', @d tinyint = 2, @n int = 1; SET DATEFORMAT @f; \
               SET DATEFIRST @d; SET ROWCOUNT @n";
    assert_eq!(rows(&mut *session, set), "");
    let found = "SELECT @@DATEFIRST, MONTH(CAST(x AS datetime)) FROM (VALUES ('01/02/2024'), \
                 ('01/02/2024')) t (x)";
    assert_eq!(rows(&mut *session, found), "2 | 2");
    run(&mut *session, "SET DATEFORMAT 'ymd'");
    assert_eq!(rows(&mut *session, "SELECT MONTH(CAST('01/02/03' AS datetime))"), "2");
    let refused = rows(&mut *session, "SET DATEFORMAT 5");
    assert!(refused.starts_with("! 40517/"), "{refused}");
}
