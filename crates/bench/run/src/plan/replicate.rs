//! Options of the followers' experiment, and their defaults.

use std::str::FromStr;

use clap::Args;

use super::given::Given;
use crate::error::{BenchError, Result};

/// Transactions of all writers together, with `--quick` and by default: without a pause, and at a
/// rate.
const FULL: (u32, u32) = (4_000, 40_000);
const PACED: (u32, u32) = (2_000, 10_000);
/// Transactions a second of writers at a rate, as of an application that leaves the machine idle
/// most of the time.
const RATE: u64 = 1_000;

/// What followers ship, and where to: options, and from [`ReplicatePlan::filled`] on every default.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of --experiment replicate")]
pub(crate) struct ReplicatePlan {
    /// Where followers ship to: s3://BUCKET or s3://BUCKET/PREFIX. The server and the keys come
    /// from the variables that `tdekit replicate` takes: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and
    /// others. The run's objects are removed. Default: directories in --dir.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) archive: Option<BucketAddress>,
    /// Transactions of the writers without a pause, all together; 0 leaves these writers out.
    /// Default: 40,000, with --quick 4,000.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MOST))]
    transactions: Option<u32>,
    /// Transactions of the writers at --rate, all together; 0 leaves these writers out. Default:
    /// 10,000, with --quick 2,000.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=MOST))]
    paced_transactions: Option<u32>,
    #[arg(skip)]
    pub(crate) full: u32,
    #[arg(skip)]
    pub(crate) paced: u32,
    /// Of all writers at a rate together.
    #[arg(skip)]
    pub(crate) per_second: u64,
}

const MOST: i64 = 100_000_000;

impl ReplicatePlan {
    /// Returns the plan with every default filled in.
    pub(crate) fn filled(&self, given: &Given) -> Result<Self> {
        let full = self.transactions.unwrap_or(given.basics.by_quick(FULL));
        let paced = self.paced_transactions.unwrap_or(given.basics.by_quick(PACED));
        if full == 0 && paced == 0 {
            let reason = "without it and --paced-transactions nothing is written";
            return Err(BenchError::option("--transactions", reason));
        }
        let per_second = given.rate.unwrap_or(RATE);
        Ok(Self { full, paced, per_second, ..self.clone() })
    }
}

/// `s3://BUCKET/PREFIX`, the prefix empty or without a slash at its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketAddress {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

impl FromStr for BucketAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (bucket, prefix) = match text.strip_prefix("s3://")? {
                rest if rest.contains('/') => rest.split_once('/')?,
                bucket => (bucket, ""),
            };
            let prefix = prefix.trim_end_matches('/');
            // Both followers take such a name literally, and Litestream's addresses are URLs.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
            let segment = |each: &str| !matches!(each, "" | "." | "..");
            let usual = prefix.is_empty() || prefix.split('/').all(segment);
            (!bucket.is_empty() && usual && bucket.bytes().chain(prefix.bytes()).all(plain))
                .then(|| Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
        };
        read().ok_or_else(|| {
            "expected s3://BUCKET or s3://BUCKET/PREFIX, of letters, digits, `-`, `_`, `.`, `/`"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::parsed;

    fn plan(words: &[&str]) -> Result<ReplicatePlan, String> {
        let args: ReplicatePlan = parsed(words).map_err(|error| error.to_string())?;
        args.filled(&parsed(&[]).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn either_kind_of_writers_can_be_left_out_and_not_both() {
        let found = plan(&[]).unwrap();
        assert_eq!((found.full, found.paced, found.per_second), (40_000, 10_000, 1_000));
        let day = plan(&["--transactions", "0", "--paced-transactions", "86400"]).unwrap();
        assert_eq!((day.full, day.paced), (0, 86_400));
        let none = plan(&["--transactions", "0", "--paced-transactions", "0"]).unwrap_err();
        assert!(none.contains("nothing is written"), "{none}");
    }

    #[test]
    fn a_bucket_has_a_prefix_or_none() {
        let read = |text: &str| {
            let found = text.parse::<BucketAddress>().ok()?;
            Some((found.bucket, found.prefix))
        };
        let found = |bucket: &str, prefix: &str| Some((bucket.to_owned(), prefix.to_owned()));
        assert_eq!(read("s3://b"), found("b", ""));
        assert_eq!(read("s3://b/"), found("b", ""));
        assert_eq!(read("s3://b/x/y.z/"), found("b", "x/y.z"));
        for wrong in ["b", "s3://", "s3:///x", "gs://b/x", "s3://b/a//b", "s3://b/../c", "s3://b/?"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
