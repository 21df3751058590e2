//! Values of arguments, as users write them.

use std::str::FromStr;

use tdekit_backup_run::Compression;
use tdekit_backup_run::database::source::EncryptionChoice;
use tdekit_console::output;
use tdekit_key_crypto::Algorithm;

use crate::when::parse_expiry;

/// Levels of zstd without its long-distance modes, which need more memory.
const ZSTD_LEVELS: std::ops::RangeInclusive<i8> = -7..=19;
const ZSTD_DEFAULT_LEVEL: i8 = 1;

/// Parses `none` or the name of an algorithm.
pub(crate) fn parse_encryption(text: &str) -> Result<EncryptionChoice, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(EncryptionChoice::None);
    }
    let algorithm = Algorithm::from_str(text).map_err(|_| {
        let names: Vec<_> = Algorithm::offered().map(Algorithm::name).collect();
        format!("none of: none, {}", names.join(", "))
    })?;
    Ok(EncryptionChoice::Algorithm(algorithm))
}

/// Warns of the algorithm that is there for old readers only.
pub(crate) fn warn_of_legacy(choice: Option<EncryptionChoice>) {
    if let Some(EncryptionChoice::Algorithm(Algorithm::TripleDes3Key)) = choice {
        output::warning(
            "TRIPLE_DES_3KEY is legacy: it is a hundred times slower than AES_256 and no safer; \
             use it only for readers that know nothing else",
        );
    }
}

/// Parses `none`, `lz4`, `zstd` or `zstd:LEVEL`.
pub(crate) fn parse_compression(text: &str) -> Result<Compression, String> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    match (name.to_ascii_lowercase().as_str(), level) {
        ("none", None) => Ok(Compression::None),
        ("lz4", None) => Ok(Compression::Lz4),
        ("zstd", None) => Ok(Compression::Zstd { level: ZSTD_DEFAULT_LEVEL }),
        ("zstd", Some(level)) => match level.parse() {
            Ok(level) if ZSTD_LEVELS.contains(&level) => Ok(Compression::Zstd { level }),
            _ => Err(format!("zstd has levels {} to {}", ZSTD_LEVELS.start(), ZSTD_LEVELS.end())),
        },
        ("none" | "lz4", Some(_)) => Err(format!("{name} has no levels")),
        _ => Err("none of: none, lz4, zstd, zstd:LEVEL".to_owned()),
    }
}

/// Parses a number of bytes such as `50MB`, `512KiB`, `1.5G` or `50MB/s`; `K`, `M`, `G` and `T` are
/// powers of 1000, with `i` of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    bytes_of(text).ok_or_else(|| "no number of bytes such as 50MB or 512KiB".to_owned())
}

fn bytes_of(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower.strip_suffix("/s").unwrap_or(&lower);
    let lower = lower.strip_suffix('b').unwrap_or(lower);
    let (lower, base) = match lower.strip_suffix('i') {
        Some(rest) => (rest, 1024u64),
        None => (lower, 1000),
    };
    let powers = [('k', 1), ('m', 2), ('g', 3), ('t', 4)];
    let unit = powers
        .into_iter()
        .find_map(|(letter, power)| lower.strip_suffix(letter).map(|rest| (rest, base.pow(power))));
    let (number, factor) = match unit {
        Some(found) => found,
        None if base == 1000 => (lower, 1),
        None => return None,
    };
    let (whole, fraction) = match number.trim_end().split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (number.trim_end(), ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.is_empty() || fraction.len() > 6 {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let bytes = whole.checked_add(factor.checked_mul(part)? / scale)?;
    (bytes > 0).then_some(bytes)
}

/// Parses permission bits in octal digits, such as `0640`.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|it| it.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or_else(|| "not like 0640".to_owned())
}

/// Parses a number of threads, at least one.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|threads| *threads > 0);
    number.ok_or_else(|| "not a number of threads, at least 1".to_owned())
}

/// Parses a share such as `5%`, from 1 to 100.
pub(crate) fn parse_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| (1..=100).contains(percent)).ok_or_else(|| "not like 5%".to_owned())
}

/// Parses an expiry: a number of days, or a value for [`parse_expiry`]. Returns seconds since 1970.
pub(crate) fn parse_expire(text: &str) -> Result<i64, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_expiry(&format!("{text}d"));
    }
    parse_expiry(text).map_err(|_| "neither days, like 90, nor like 2036-11-21".to_owned())
}

#[cfg(test)]
mod tests {
    use tdekit_key_store::now_seconds;

    use super::*;

    #[test]
    fn reads_numbers_of_bytes() {
        let cases = [
            ("1", 1),
            ("50MB", 50_000_000),
            ("50mb/s", 50_000_000),
            ("50M", 50_000_000),
            ("512KiB", 512 * 1024),
            ("1.5G", 1_500_000_000),
            ("2 GiB", 2 << 30),
            ("0.5k", 500),
            ("7 b", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "0", "MB", "-1", "1i", "1x", "1.2.3M", "1e9", "99999999999999999T", ".5M"]
        {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_shares_and_modes() {
        assert_eq!((parse_percent("5%"), parse_percent("100")), (Ok(5), Ok(100)));
        assert_eq!((parse_mode("0640"), parse_mode("600")), (Ok(0o640), Ok(0o600)));
        for wrong in ["", "0", "101%", "-1", "5%%", "256"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "4755", "888", "+640", "u=rw"] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_compression_and_encryption() {
        assert_eq!(parse_compression("none"), Ok(Compression::None));
        assert_eq!(parse_compression("LZ4"), Ok(Compression::Lz4));
        assert_eq!(parse_compression("zstd"), Ok(Compression::Zstd { level: 1 }));
        assert_eq!(parse_compression("zstd:19"), Ok(Compression::Zstd { level: 19 }));
        assert_eq!(parse_compression("zstd:-3"), Ok(Compression::Zstd { level: -3 }));
        for wrong in ["", "gzip", "zstd:", "zstd:20", "lz4:1", "none:0", "zstd:x"] {
            assert!(parse_compression(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_encryption("None"), Ok(EncryptionChoice::None));
        let triple = EncryptionChoice::Algorithm(Algorithm::TripleDes3Key);
        assert_eq!(parse_encryption("TRIPLE_DES_3KEY"), Ok(triple));
        assert!(parse_encryption("ROT13").unwrap_err().contains("AES_256"));
    }

    #[test]
    fn reads_an_expiry_in_days_or_as_a_date() {
        let in_days = parse_expire("90").unwrap() - now_seconds();
        assert!((90 * 86_400 - 5..=90 * 86_400).contains(&in_days));
        assert_eq!(parse_expire("2036-11-21"), parse_expiry("2036-11-21"));
        assert!(parse_expire("2y").is_ok());
        for wrong in ["", "-5", "soon", "99999999999"] {
            assert!(parse_expire(wrong).is_err(), "{wrong}");
        }
    }
}
