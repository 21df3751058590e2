//! Addresses of objects, and the names of a media set's parts.

use object_store::path::Path;

use super::ObjectFault;

/// The store that an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// `s3://bucket/key`.
    S3,
    /// `gs://bucket/key`.
    Gcs,
    /// `az://container/key`.
    Azure,
}

const SCHEMES: [(&str, Scheme); 3] =
    [("s3://", Scheme::S3), ("gs://", Scheme::Gcs), ("az://", Scheme::Azure)];

const NEEDED: &str = "an address has a bucket and a name: s3://bucket/name";

/// Returns true if a text is an address of a known object store: `s3://`, `gs://`, `az://`.
#[must_use]
pub fn is_object_address(text: &str) -> bool {
    SCHEMES.iter().any(|(prefix, _)| text.starts_with(prefix))
}

/// An object on a store. The key is used as given, without percent-decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: Scheme,
    pub(super) bucket: String,
    pub(super) key: Path,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, ObjectFault> {
        let wrong = |reason: String| ObjectFault::Configuration { reason };
        let (scheme, bucket, key) = taken_apart(text)?;
        if key.is_empty() {
            return Err(wrong(NEEDED.to_owned()));
        }
        Self::of(scheme, bucket, key)
    }

    /// Parses the beginning of addresses, which ends with a slash. Its key may be empty.
    pub(super) fn parse_prefix(text: &str) -> Result<Self, ObjectFault> {
        let (scheme, bucket, key) = taken_apart(text)?;
        Self::of(scheme, bucket, key.strip_suffix('/').unwrap_or(key))
    }

    fn of(scheme: Scheme, bucket: &str, key: &str) -> Result<Self, ObjectFault> {
        let wrong = |reason: String| ObjectFault::Configuration { reason };
        // The client puts it into a URL unchanged, and panics if it is invalid.
        if !bucket.chars().all(|c| c.is_ascii_alphanumeric() || "-._$:".contains(c)) {
            return Err(wrong(format!("{bucket:?} is not the name of a bucket")));
        }
        let parsed =
            Path::parse(key).map_err(|error| wrong(format!("not a usable name: {error}")))?;
        // A leading slash would be dropped silently, which would address another object.
        if parsed.as_ref() != key {
            return Err(wrong("a name neither begins nor ends with a slash".to_owned()));
        }
        Ok(Self { scheme, bucket: bucket.to_owned(), key: parsed })
    }
}

/// Splits an address into store, bucket and key.
fn taken_apart(text: &str) -> Result<(Scheme, &str, &str), ObjectFault> {
    let wrong = |reason: &str| ObjectFault::Configuration { reason: reason.to_owned() };
    let found = SCHEMES
        .iter()
        .find_map(|(prefix, scheme)| text.strip_prefix(prefix).map(|rest| (*scheme, rest)));
    let (scheme, rest) = found
        .ok_or_else(|| wrong("no store is known for this address: s3://, gs:// and az:// are"))?;
    match rest.split_once('/').unwrap_or((rest, "")) {
        ("", _) => Err(wrong(NEEDED)),
        (bucket, key) => Ok((scheme, bucket, key)),
    }
}

/// Returns true for a prefix of addresses of a known store: a bucket, or a text that ends with a
/// slash.
#[must_use]
pub(crate) fn is_prefix(text: &str) -> bool {
    let rest = SCHEMES.iter().find_map(|(prefix, _)| text.strip_prefix(prefix));
    rest.is_some_and(|rest| !rest.contains('/') || rest.ends_with('/'))
}

/// Returns true for the name of an object that a writer makes for itself: a claim, or an upload
/// that has not its name yet.
pub(super) fn is_work(key: &Path) -> bool {
    let digits = |rest: &str| rest.len() == 16 && rest.bytes().all(|it| it.is_ascii_hexdigit());
    let is = |marker: &str| key.as_ref().rsplit_once(marker).is_some_and(|(_, rest)| digits(rest));
    let claims = |(_, rest): (&str, &str)| digits(rest.rsplit('-').next().unwrap_or_default());
    key.as_ref().rsplit_once(".claim-").is_some_and(claims) || is(".unfinished-")
}

/// Returns the key of a part: the key itself, then `KEY.0001`, `KEY.0002`, ...
pub(super) fn part_key(key: &Path, part: u32) -> Path {
    match part {
        0 => key.clone(),
        // All added characters are plain, so the path is otherwise unchanged.
        _ => Path::parse(format!("{key}.{part:04}")).unwrap_or_else(|_| key.clone()),
    }
}

/// Returns the number of the part of `key` that an object is; `None` for an object of another name.
pub(super) fn part_of(key: &Path, object: &Path) -> Option<u32> {
    let rest = object.as_ref().strip_prefix(key.as_ref())?;
    if rest.is_empty() {
        return Some(0);
    }
    let digits = rest.strip_prefix('.')?;
    let part = digits.parse().ok()?;
    // Formatted again, so that only one spelling of a number is valid.
    (part > 0 && part_key(key, part) == *object).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        for text in ["s3://b/k", "gs://b/k", "az://c/k"] {
            assert!(is_object_address(text), "{text}");
        }
        for text in ["s3:/b/k", "S3", "./s3://b", "http://b/k", "app.bak", ""] {
            assert!(!is_object_address(text), "{text}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let address = Address::parse("s3://bucket/dir/shop.bak").unwrap();
        assert_eq!((address.scheme, address.bucket.as_str()), (Scheme::S3, "bucket"));
        assert_eq!(address.key.as_ref(), "dir/shop.bak");
        assert_eq!(Address::parse("az://c/a b%20.bak").unwrap().key.as_ref(), "a b%20.bak");
        let wrong =
            ["s3://", "s3://b", "s3://b/", "s3:///k", "ftp://b/k", "s3://b//k", "s3://b/k/"];
        for text in wrong
            .into_iter()
            .chain(["s3://b/a//k", "s3://b/a/../k", "s3://b b/k", "s3://b\n/k", "s3://b\u{7f}/k"])
            .chain(["s3://b?/k", "s3://b#/k", "s3://\u{fc}/k", "s3://[/k"])
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_are_named_and_known_again() {
        let key = Path::from("dir/shop.bak");
        for (part, name) in [(0, "dir/shop.bak"), (1, "dir/shop.bak.0001")] {
            assert_eq!(part_key(&key, part).as_ref(), name);
        }
        for part in [0, 1, 9999, 10_000, u32::MAX] {
            assert_eq!(part_of(&key, &part_key(&key, part)), Some(part));
        }
        for other in ["dir/shop.bak.1", "dir/shop.bak.0000", "dir/shop.bak.00001", "dir/shop.bak."]
            .into_iter()
            .chain(["dir/shop.bak.+001", "dir/shop.bak.0001.tmp", "dir/shop.bak0001", "dir/shop"])
            .chain(["dir/shop.bak.99999999999", "dir/shop.bak/0001"])
        {
            assert_eq!(part_of(&key, &Path::parse(other).unwrap()), None, "{other}");
        }
    }
}
