"""Every scalar type: its declaration, a literal of T-SQL, and what Python makes of that."""

import datetime
import decimal
import uuid

TEXT = "Grüße, Ω, 日本, \U0001f600"
OFFSET = datetime.timezone(datetime.timedelta(hours=5, minutes=30))

COLUMNS = {
    "c_bit": ("bit", "1", True),
    "c_tinyint": ("tinyint", "255", 255),
    "c_smallint": ("smallint", "-32768", -32768),
    "c_int": ("int", "-2147483648", -(2**31)),
    "c_bigint": ("bigint", "9223372036854775807", 2**63 - 1),
    "c_real": ("real", "0.25", 0.25),
    "c_float": ("float", "1.7976931348623157E308", 1.7976931348623157e308),
    "c_decimal": (
        "decimal(38, 10)",
        "1234567890123456789012345678.0123456789",
        decimal.Decimal("1234567890123456789012345678.0123456789"),
    ),
    "c_numeric": ("numeric(9, 2)", "-1234567.89", decimal.Decimal("-1234567.89")),
    "c_money": ("money", "922337203685477.5807", decimal.Decimal("922337203685477.5807")),
    "c_smallmoney": ("smallmoney", "-214748.3648", decimal.Decimal("-214748.3648")),
    "c_char": ("char(8)", "'a€c'", "a€c     "),
    "c_varchar": ("varchar(50)", "'it''s é'", "it's é"),
    "c_varcharmax": ("varchar(max)", "'long é'", "long é"),
    "c_nchar": ("nchar(4)", "N'日本'", "日本  "),
    "c_nvarchar": ("nvarchar(50)", f"N'{TEXT}'", TEXT),
    "c_nvarcharmax": ("nvarchar(max)", f"N'{TEXT}'", TEXT),
    "c_binary": ("binary(4)", "0xFF00", b"\xff\0\0\0"),
    "c_varbinary": ("varbinary(50)", "0x00FF10", b"\0\xff\x10"),
    "c_varbinarymax": ("varbinary(max)", "0xFF0000", b"\xff\0\0"),
    "c_date": ("date", "'9999-12-31'", datetime.date(9999, 12, 31)),
    "c_time": ("time(7)", "'23:59:59.999999'", datetime.time(23, 59, 59, 999999)),
    "c_datetime": (
        "datetime",
        "'1753-01-01T12:34:56.790'",
        datetime.datetime(1753, 1, 1, 12, 34, 56, 790000),
    ),
    "c_smalldatetime": (
        "smalldatetime",
        "'2079-06-06T23:59:00'",
        datetime.datetime(2079, 6, 6, 23, 59),
    ),
    "c_datetime2": (
        "datetime2(7)",
        "'0001-01-01T00:00:00.000001'",
        datetime.datetime(1, 1, 1, 0, 0, 0, 1),
    ),
    "c_datetimeoffset": (
        "datetimeoffset(7)",
        "'2024-02-29T13:14:15.123456+05:30'",
        datetime.datetime(2024, 2, 29, 13, 14, 15, 123456, OFFSET),
    ),
    "c_guid": (
        "uniqueidentifier",
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        uuid.UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ),
    "c_text": ("text", "'text é'", "text é"),
    "c_ntext": ("ntext", f"N'{TEXT}'", TEXT),
    "c_image": ("image", "0x00CAFE", b"\0\xca\xfe"),
    "c_xml": ("xml", f"N'{TEXT}'", TEXT),
}


def definition():
    """The columns of a table of all types."""
    return ", ".join(f"{name} {column[0]} NULL" for name, column in COLUMNS.items())


def literals():
    """A row as T-SQL writes it."""
    return ", ".join(column[1] for column in COLUMNS.values())


def values():
    """The same row in Python."""
    return {name: column[2] for name, column in COLUMNS.items()}
