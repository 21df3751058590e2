//! FOR XML PATH and the method `value`.

use crate::common::{Server, check, rows, run};

const TABLE: &str = "CREATE TABLE #t (i int, s nvarchar(20) NULL); INSERT #t VALUES (1, N'a'), (2, \
    N'<b> & \"c\"'), (3, NULL);";

/// The document of each query over the table.
fn gives(cases: &[(&str, &str)]) {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, TABLE);
    let mut wrong = Vec::new();
    for (query, expected) in cases {
        let found = rows(&mut *session, query);
        let wanted = match *expected {
            "" => String::new(),
            error if error.starts_with('!') => error.to_owned(),
            text => format!("'{text}'"),
        };
        if found != wanted && !(wanted.starts_with('!') && found.starts_with(&wanted)) {
            wrong.push(format!("{query}\n  expected: {wanted}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_of_a_groups_values() {
    gives(&[
        (
            "SELECT STUFF((SELECT ',' + s FROM #t ORDER BY i DESC FOR XML PATH('')), 1, 1, '')",
            "&lt;b&gt; &amp; \"c\",a",
        ),
        (
            "SELECT STUFF((SELECT ',' + s FROM #t ORDER BY i FOR XML PATH(''), \
             TYPE).value('.', 'nvarchar(max)'), 1, 1, '')",
            "a,<b> & \"c\"",
        ),
        (
            "SELECT (SELECT ',' + s AS [text()] FROM #t ORDER BY i FOR XML PATH(''), \
             TYPE).value('(./text())[1]', 'varchar(3)')",
            ",a,",
        ),
        (
            "SELECT x.n + STUFF((SELECT ',' + CAST(t.i AS varchar(9)) FROM #t AS t WHERE t.i >= \
             x.f FOR XML PATH('')), 1, 1, ':') FROM (VALUES ('q', 2)) AS x (n, f)",
            "q:2,3",
        ),
        ("SELECT i AS [data()] FROM #t ORDER BY i FOR XML PATH('')", "1 2 3"),
    ]);
    check(&[
        ("SELECT (SELECT 1 AS a WHERE 1 = 2 FOR XML PATH(''))", "NULL"),
        ("SELECT (SELECT NULL FOR XML PATH(''))", "NULL"),
        ("SELECT (SELECT 1 AS a WHERE 1 = 2 FOR XML PATH, TYPE).value('.', 'int')", "NULL"),
        ("SELECT (SELECT 42 FOR XML PATH(''), TYPE).value('.', 'int') + 1", "43"),
        ("SELECT (SELECT 1 AS a FOR XML PATH, TYPE).value('text()[1]', 'int')", "NULL"),
        (
            "SELECT (SELECT 'x' AS b, 'y', 'z' AS c FOR XML PATH(''), TYPE).value('text()[1]', \
          'varchar(9)')",
            "'y'",
        ),
        ("SELECT 1 AS a WHERE 1 = 2 FOR XML PATH", ""),
    ]);
}

#[test]
fn names_are_places_in_the_element_of_a_row() {
    gives(&[
        (
            "SELECT i, s FROM #t ORDER BY i FOR XML PATH",
            "<row><i>1</i><s>a</s></row><row><i>2</i><s>&lt;b&gt; &amp; \"c\"</s></row>\
             <row><i>3</i></row>",
        ),
        (
            "SELECT i AS [@id], s AS [@s] FROM #t ORDER BY i FOR XML PATH('r'), ROOT('rs')",
            "<rs><r id=\"1\" s=\"a\"/><r id=\"2\" s=\"&lt;b&gt; &amp; &quot;c&quot;\"/>\
             <r id=\"3\"/></rs>",
        ),
        (
            "SELECT 1 AS [a/@b], 2 AS [a/c], 3 AS [a/c/d], 4 AS [a/e], 5 AS f, 6 AS [a/g] FOR XML \
             PATH('')",
            "<a b=\"1\"><c>2<d>3</d></c><e>4</e></a><f>5</f><a><g>6</g></a>",
        ),
        ("SELECT 1 AS a, 2 AS a, 'x', 3 AS [*] FOR XML PATH('r')", "<r><a>12</a>x3</r>"),
        (
            "SELECT 1 AS [a/data()], 2 AS [a/data()], 3 AS [a/text()] FOR XML PATH('')",
            "<a>1 23</a>",
        ),
        ("SELECT NULL AS a FOR XML PATH('r'), ROOT", "<root><r/></root>"),
        ("SELECT '' AS a FOR XML PATH('r')", "<r><a></a></r>"),
        ("SELECT (SELECT '' AS a FOR XML PATH('r'), TYPE) FOR XML PATH('')", "<r><a/></r>"),
        (
            "SELECT 1 AS a, (SELECT 2 AS b, '<' AS c FOR XML PATH('in'), TYPE) AS d, (SELECT 3 AS \
             e FOR XML PATH('x'), TYPE) FOR XML PATH('r')",
            "<r><a>1</a><d><in><b>2</b><c>&lt;</c></in></d><x><e>3</e></x></r>",
        ),
        // without TYPE a document within is text
        (
            "SELECT (SELECT 1 AS b FOR XML PATH('')) AS a FOR XML PATH('')",
            "<a>&lt;b&gt;1&lt;/b&gt;</a>",
        ),
        (
            "SELECT i, s FROM #t WHERE i = 3 FOR XML PATH('r'), ELEMENTS XSINIL, ROOT('q')",
            "<q xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><r><i>3</i>\
             <s xsi:nil=\"true\"/></r></q>",
        ),
        (
            "SELECT NULL AS [@b], NULL AS a FOR XML PATH('r'), ELEMENTS XSINIL",
            "<r xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><a xsi:nil=\"true\"/></r>",
        ),
        (
            "SELECT CAST(1.50 AS decimal(5,2)) AS a, CAST(1 AS bit) AS b, CAST('2024-01-02' AS \
             datetime) AS c, 0x00FF AS d, CAST(2 AS money) AS e FOR XML PATH('')",
            "<a>1.50</a><b>1</b><c>2024-01-02T00:00:00</c><d>AP8=</d><e>2.0000</e>",
        ),
        ("SELECT CHAR(13) + CHAR(10) + CHAR(1) AS a FOR XML PATH('')", "<a>&#x0D;\n&#x01;</a>"),
        ("SELECT 1 AS a UNION ALL SELECT 2 FOR XML PATH('')", "<a>1</a><a>2</a>"),
    ]);
}

#[test]
fn a_document_comes_in_pieces_and_xml_in_one() {
    let server = Server::new();
    let mut session = server.session();
    let text = "SELECT REPLICATE('x', 3000) AS a FOR XML PATH('')";
    let found = run(&mut *session, text);
    assert_eq!(found[0], "# XML_F52E2B61-18A1-11d1-B105-00805F49916B:NText");
    assert_eq!(found[1].len(), 2033 + 2);
    assert_eq!(found[1][..6], *"'<a>xx");
    assert_eq!(found[2].len(), 3007 - 2033 + 2);
    let found = run(&mut *session, &format!("{text}, TYPE"));
    assert_eq!((found[0].as_str(), found[1].len()), ("# :Xml", 3009));
}

#[test]
fn what_is_no_document_is_refused() {
    check(&[
        (
            "SELECT 1 AS [a b] FOR XML PATH",
            "! 6850/16/1 line 1: Column name 'a b' contains an \
          invalid XML identifier as required by FOR XML; ' '(0x0020) is the first character at \
          fault.",
        ),
        ("SELECT 1 AS [1a] FOR XML PATH", "! 6850/16/1"),
        ("SELECT 1 AS [a//b] FOR XML PATH", "! 6850/16/1"),
        ("SELECT 1 AS [a/] FOR XML PATH", "! 6850/16/1"),
        ("SELECT 1 AS a FOR XML PATH('<')", "! 6850/16/1 line 1: Row tag '<'"),
        ("SELECT 1 AS a FOR XML PATH, ROOT('')", "! 6850/16/1 line 1: ROOT ''"),
        (
            "SELECT 1 AS a, 2 AS [@b] FOR XML PATH",
            "! 6852/16/1 line 1: Attribute-centric column \
          '@b' must not come after",
        ),
        ("SELECT 1 AS [a/b], 2 AS [a/@c] FOR XML PATH", "! 6852/16/1"),
        ("SELECT 1 AS [@a] FOR XML PATH('')", "! 6864/16/1"),
        (
            "SELECT (SELECT CHAR(1) AS a FOR XML PATH(''), TYPE) AS b",
            "! 6841/16/1 line 1: FOR XML \
          could not serialize the data for node 'a' because it contains a character (0x0001)",
        ),
        ("SELECT 1 AS a FOR XML RAW", "! 40517/16/1"),
        ("SELECT 1 AS a FOR XML AUTO", "! 40517/16/1"),
        ("SELECT 1 AS a FOR XML PATH, XMLSCHEMA", "! 40517/16/1"),
        ("SELECT 1 AS a INTO #x FOR XML PATH", "! 6819/16/1"),
        ("CREATE TABLE #x (a int); INSERT #x SELECT 1 AS a FOR XML PATH", "! 6819/16/1"),
        ("DECLARE @x xml; SELECT @x = 1 FOR XML PATH", "! 40512/16/1"),
        ("SELECT (SELECT 1 FOR XML PATH(''), TYPE).value('/a[1]', 'int')", "! 40512/16/1"),
        ("SELECT (SELECT 1 FOR XML PATH(''), TYPE).query('.')", "! 40517/16/1"),
        ("SELECT (SELECT 1 FOR XML PATH('')).value('.', 'int')", "! 102/15/1"),
        ("SELECT STUFF((SELECT 1 FOR XML PATH(''), TYPE), 1, 1, '')", "! 8116/16/1"),
    ]);
}
