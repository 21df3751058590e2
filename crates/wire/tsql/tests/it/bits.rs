//! Shifts and single bits.

use crate::common::check;

#[test]
fn shifts_fill_with_zeros_and_keep_the_type() {
    check(&[
        ("SELECT 1 << 4, 256 >> 4, 1 << 31, 1 << 32, 1 << 5000", "16 | 16 | -2147483648 | 0 | 0"),
        ("SELECT -1 >> 1, -8 >> 0, LEFT_SHIFT(-1, 4)", "2147483647 | -8 | -16"),
        (
            "SELECT 1 << -1, 2 >> -3, LEFT_SHIFT(6, -1), 1 >> CAST(-9223372036854775808 AS bigint)",
            "0 | 16 | 3 | 0",
        ),
        (
            "SELECT CAST(255 AS tinyint) << 1, CAST(-1 AS smallint) >> 12, \
             CAST(1 AS bigint) << 63, CAST(-1 AS bigint) >> 60",
            "254 | 15 | -9223372036854775808 | 15",
        ),
        (
            "SELECT 0x0FF0 << 4, 0x0FF0 >> 4, 0x000001 << 9, 0x010000 >> 9, 0xFF << 8, 0x >> 1",
            "Binary([255, 0]) | Binary([0, 255]) | Binary([0, 2, 0]) | Binary([0, 0, \
             128]) | Binary([0]) | Binary([])",
        ),
        (
            "SELECT 1 + 2 << 3, 2 * 3 << 1, 1 | 2 << 1, (1 << 2) + 1, ~0 >> 31",
            "24 | 12 | 6 | 5 | 1",
        ),
        (
            "DECLARE @a int, @n bigint = 2; SELECT @a << @n, 1 << NULL, NULL >> 1",
            "NULL | NULL | NULL",
        ),
        (
            "CREATE TABLE #t (a smallint, b binary(2), c AS a << 2, d int DEFAULT 1 << 4); \
             INSERT #t (a, b) VALUES (3, 0x0102), (NULL, NULL); \
             SELECT a << 1, b >> 8, c, d FROM #t WHERE a << 1 = 6 OR a IS NULL",
            "6 | Binary([0, 1]) | 12 | 16\nNULL | NULL | NULL | 16",
        ),
        (
            "SELECT CAST(1 AS tinyint) << 1 AS a, 0x0102 << 1 AS b INTO #t; \
             SELECT TYPE_NAME(system_type_id), max_length FROM tempdb.sys.columns \
             WHERE object_id = OBJECT_ID('tempdb..#t') ORDER BY column_id",
            "'tinyint' | 1\n'varbinary' | 2",
        ),
    ]);
}

#[test]
fn bits_are_counted_read_and_set() {
    check(&[
        (
            "SELECT BIT_COUNT(-1), BIT_COUNT(CAST(-1 AS smallint)), BIT_COUNT(0x), BIT_COUNT(NULL)",
            "32 | 16 | 0 | NULL",
        ),
        (
            "SELECT GET_BIT(0xabcdef, 2), GET_BIT(0xabcdef, 4), GET_BIT(-1, 31), GET_BIT(4, 1)",
            "1 | 0 | 1 | 0",
        ),
        (
            "SELECT SET_BIT(0x00, 2), SET_BIT(0xabcdef, 0, 0), SET_BIT(0, 31), SET_BIT(7, 1, 0)",
            "Binary([4]) | Binary([171, 205, 238]) | -2147483648 | 5",
        ),
        (
            "SELECT SET_BIT(1, NULL), SET_BIT(1, 1, NULL), SET_BIT(CAST(NULL AS int), 1)",
            "NULL | NULL | NULL",
        ),
        ("SELECT SET_BIT(CAST(1 AS tinyint), 7), SET_BIT(1, 1, CAST(1 AS bit))", "129 | 3"),
    ]);
}

#[test]
fn other_types_and_bits_outside_are_refused() {
    check(&[
        ("SELECT 'a' << 1", "! 8116/16/1"),
        ("SELECT 1.5 << 1", "! 8116/16/1"),
        ("SELECT CAST(1 AS bit) << 1", "! 8116/16/1"),
        ("SELECT CAST(0x01 AS varbinary(max)) >> 1", "! 8116/16/1"),
        ("SELECT 1 << 1.5", "! 8116/16/1"),
        ("SELECT 1 << 0x01", "! 8116/16/1"),
        ("SELECT BIT_COUNT('a')", "! 8116/16/1"),
        ("SELECT LEFT_SHIFT(1)", "! 174/15/1"),
        ("SELECT GET_BIT(1, 32)", "! 1023/15/1"),
        ("SELECT GET_BIT(1, -1)", "! 1023/15/1"),
        ("SELECT SET_BIT(0x01, 8)", "! 1023/15/1"),
        ("SELECT SET_BIT(1, 1, 2)", "! 1023/15/1"),
        ("SELECT GET_BIT(0x, 0)", "! 1023/15/1"),
        ("SELECT 1 < < 2", "! 102/15/"),
    ]);
}
