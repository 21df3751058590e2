//! Values of the CRUD experiment's columns.

use fastrand::Rng;

/// Returns a name of 12 to 40 letters, as in the source's nvarchar column.
pub fn business_name(rng: &mut Rng) -> String {
    let length = rng.usize(12..=40);
    (0..length).map(|_| rng.alphabetic()).collect()
}

/// Returns a city of 6 to 18 letters.
pub fn city(rng: &mut Rng) -> String {
    let length = rng.usize(6..=18);
    (0..length).map(|_| rng.lowercase()).collect()
}

/// Returns five digits.
pub fn zip_code(rng: &mut Rng) -> String {
    format!("{:05}", rng.u32(0..100_000))
}

/// Returns the 36 characters of a printed GUID, as in the source's column.
pub fn secure_string(rng: &mut Rng) -> String {
    let digits = hex::encode(rng.u128(..).to_be_bytes());
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Returns sixteen digits. The probability that two rows share one is 1e-3 in a database of a
/// million cards; the unique index covers the security code too.
pub fn card_number(rng: &mut Rng) -> i64 {
    rng.i64(1_000_000_000_000_000..10_000_000_000_000_000)
}
