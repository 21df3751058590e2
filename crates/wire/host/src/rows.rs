//! Rows of views: columns by short names of their types, values from the host's data.

use std::borrow::Cow;

use hex::FromHex;
use tdekit_wire_tds::{DATETIME_TICKS_PER_DAY, Length, SqlType, Value};
use tdekit_wire_tsql::Rows;

/// Days from 1900-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 25_567;
const DAY_MS: i64 = 86_400_000;

pub(crate) const BIT: SqlType = SqlType::Bit;
pub(crate) const TINY: SqlType = SqlType::TinyInt;
pub(crate) const SMALL: SqlType = SqlType::SmallInt;
pub(crate) const INT: SqlType = SqlType::Int;
pub(crate) const BIG: SqlType = SqlType::BigInt;
pub(crate) const REAL: SqlType = SqlType::Real;
pub(crate) const DATETIME: SqlType = SqlType::DateTime;
pub(crate) const GUID: SqlType = SqlType::UniqueIdentifier;
/// Sizes of backups.
pub(crate) const SIZE: SqlType = SqlType::Decimal { precision: 20, scale: 0 };
/// Log sequence numbers.
pub(crate) const LSN: SqlType = SqlType::Decimal { precision: 25, scale: 0 };

/// `nvarchar(units)`.
pub(crate) const fn text(units: u16) -> SqlType {
    SqlType::NVarChar(Length::Of(units))
}

/// `varbinary(bytes)`.
pub(crate) const fn binary(bytes: u16) -> SqlType {
    SqlType::VarBinary(Length::Of(bytes))
}

/// A row: values by the names of their columns; missing ones are NULL.
pub(crate) type Named = Vec<(&'static str, Value<'static>)>;

/// Makes rows under `columns`.
pub(crate) fn rows(columns: &[(&str, SqlType)], named: Vec<Named>) -> Rows {
    let place = |mut row: Named| {
        let value = |(name, ty): &(&str, SqlType)| {
            let at = row.iter().position(|(known, _)| known == name);
            fit(at.map_or(Value::Null, |at| row.swap_remove(at).1), *ty)
        };
        columns.iter().map(value).collect()
    };
    Rows {
        columns: columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect(),
        rows: named.into_iter().map(place).collect(),
    }
}

/// Text, cut to its column by [`rows`].
pub(crate) fn string(text: impl Into<String>) -> Value<'static> {
    Value::Text(Cow::Owned(text.into()))
}

/// Text, or NULL.
pub(crate) fn maybe(text: Option<&str>) -> Value<'static> {
    text.map_or(Value::Null, string)
}

/// A count.
pub(crate) fn int(number: impl TryInto<i64>) -> Value<'static> {
    Value::Int(number.try_into().unwrap_or(i64::MAX))
}

/// A decimal without fraction digits.
pub(crate) fn size(number: u64) -> Value<'static> {
    Value::Decimal { unscaled: i128::from(number), scale: 0 }
}

/// A `datetime` in UTC, from milliseconds since 1970; NULL beyond its range.
pub(crate) fn datetime(ms: i64) -> Value<'static> {
    let (ticks, per_day) = (datetime_ticks(ms), i64::from(DATETIME_TICKS_PER_DAY));
    let days = ticks.div_euclid(per_day).saturating_add(EPOCH_DAYS);
    match (i32::try_from(days), u32::try_from(ticks.rem_euclid(per_day))) {
        // From 1753 to 9999.
        (Ok(days @ -53_690..=2_958_463), Ok(ticks)) => Value::DateTime { days, ticks },
        _ => Value::Null,
    }
}

/// Returns the number of 1/300 s since 1970, the unit of `datetime`, that is nearest to a time in
/// milliseconds.
pub(crate) fn datetime_ticks(ms: i64) -> i64 {
    let in_day = ms.rem_euclid(DAY_MS);
    ms.div_euclid(DAY_MS) * i64::from(DATETIME_TICKS_PER_DAY) + (in_day * 3 + 5) / 10
}

/// A `uniqueidentifier` that is displayed like the bytes' hexadecimal digits.
pub(crate) fn guid(id: [u8; 16]) -> Value<'static> {
    let [a, b, c, d, e, f, g, h, rest @ ..] = id;
    let mut stored = [d, c, b, a, f, e, h, g, 0, 0, 0, 0, 0, 0, 0, 0];
    stored[8..].copy_from_slice(&rest);
    Value::Guid(stored)
}

/// [`guid`] from hexadecimal digits; NULL for other text.
pub(crate) fn guid_of(digits: &str) -> Value<'static> {
    <[u8; 16]>::from_hex(digits).map_or(Value::Null, guid)
}

/// A thumbprint such as `0xA1B2`; NULL for other text.
pub(crate) fn thumbprint(digits: &str) -> Value<'static> {
    let bytes = hex::decode(digits.trim_start_matches("0x")).ok();
    bytes.map_or(Value::Null, |bytes| Value::Binary(Cow::Owned(bytes)))
}

/// Cuts text to its column, because names of other systems may be longer than SQL Server's.
fn fit(value: Value<'static>, ty: SqlType) -> Value<'static> {
    let (Value::Text(text), SqlType::NVarChar(Length::Of(units))) = (&value, ty) else {
        return value;
    };
    let mut left = usize::from(units);
    let end = text.char_indices().find(|(_, letter)| {
        let fits = letter.len_utf16() <= left;
        left = left.saturating_sub(letter.len_utf16());
        !fits
    });
    match end {
        Some((end, _)) => string(text.get(..end).unwrap_or_default()),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_sql_server() {
        assert_eq!(datetime(0), Value::DateTime { days: 25_567, ticks: 0 });
        assert_eq!(datetime(1000), Value::DateTime { days: 25_567, ticks: 300 });
        assert_eq!(datetime(86_399_999), Value::DateTime { days: 25_568, ticks: 0 });
        assert_eq!(datetime(-1), Value::DateTime { days: 25_567, ticks: 0 });
        assert_eq!(datetime(-4), Value::DateTime { days: 25_566, ticks: 25_919_999 });
        assert_eq!([datetime(i64::MAX), datetime(i64::MIN)], [Value::Null, Value::Null]);
    }

    #[test]
    fn identifiers_read_as_their_digits() {
        let Value::Guid(bytes) = guid_of("00112233445566778899aabbccddeeff") else {
            panic!("no guid")
        };
        assert_eq!(bytes[..8], [0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66]);
        assert_eq!(bytes[8..], [0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        assert_eq!((guid_of("0011"), guid_of("zz")), (Value::Null, Value::Null));
        assert_eq!(thumbprint("0x0aff"), Value::Binary(Cow::Owned(vec![0x0a, 0xff])));
    }

    #[test]
    fn a_row_has_its_columns_order_and_no_longer_text() {
        let columns = [("a", text(3)), ("b", INT), ("c", text(3))];
        let made = rows(&columns, vec![vec![("c", string("ab\u{1f600}d")), ("b", int(7))]]);
        assert_eq!(made.rows, [[Value::Null, int(7), string("ab")]]);
        assert_eq!(made.columns[1], ("b".to_owned(), INT));
    }
}
