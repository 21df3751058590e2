//! The JSON document.

use serde::{Deserialize, Serialize};

use crate::results::{Results, SCHEMA};
use crate::verdict::verdict;

/// Reason why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or not of the expected format.
    #[error("not a results document: {0}")]
    Shape(#[from] serde_json::Error),
    /// A document of another version.
    #[error("results document of schema `{found}`; this version reads `{SCHEMA}`")]
    Schema {
        /// The document's schema.
        found: String,
    },
    /// A chart of the page.
    #[error("a chart cannot be drawn: {reason}")]
    Chart {
        /// The chart library's message.
        reason: String,
    },
}

impl JsonError {
    pub(crate) fn chart(error: impl std::fmt::Display) -> Self {
        Self::Chart { reason: error.to_string() }
    }
}

/// Returns the document as text, ending in a newline.
///
/// # Errors
/// If a number cannot be written as JSON.
pub fn to_json(results: &Results) -> Result<String, JsonError> {
    let mut text = serde_json::to_string_pretty(&document(results))?;
    text.push('\n');
    Ok(text)
}

/// Returns the document: a run with its verdict, which is for readers and is not read back.
pub(crate) fn document(results: &Results) -> impl Serialize + '_ {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        results: &'a Results,
        verdict: Vec<String>,
    }
    Document { results, verdict: verdict(results) }
}

/// Reads a document.
///
/// # Errors
/// If it is not a document of [`SCHEMA`].
pub fn from_json(text: &str) -> Result<Results, JsonError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text)?;
    if head.schema != SCHEMA {
        return Err(JsonError::Schema { found: head.schema });
    }
    Ok(serde_json::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, whole};
    use crate::summary::summarize;

    #[test]
    fn round_trip() {
        for results in [example(), whole()] {
            let text = to_json(&results).unwrap();
            assert_eq!(from_json(&text).unwrap(), results);
        }
    }

    /// A run as written: its figures equal those computed from its values, and a misnamed field is
    /// an error.
    #[test]
    fn a_document_is_read_as_it_stands() {
        const FOUR: &str = include_str!("../../../../tests/fixtures/results/tdekit-bench-4.json");
        let read = from_json(FOUR).unwrap();
        assert_eq!(read.schema, SCHEMA);
        let mut again = read.clone();
        summarize(&mut again);
        let figures = |results: &Results| {
            let reports = results.reports();
            reports.map(|(name, report)| (name, report.summary.clone())).collect::<Vec<_>>()
        };
        assert!(figures(&read).iter().all(|(_, summary)| !summary.comparisons.is_empty()));
        assert_eq!(figures(&again), figures(&read));
        assert!(crate::terminal(&read).contains("mix 4/3/3"));
        let wrong = FOUR.replacen("\"cell\"", "\"class\"", 1);
        assert!(from_json(&wrong).is_err());
    }

    #[test]
    fn another_schema_is_refused() {
        for other in ["tdekit-bench/3", "tdekit-bench/99"] {
            let text = to_json(&example()).unwrap().replace(SCHEMA, other);
            let error = from_json(&text).unwrap_err();
            assert!(matches!(&error, JsonError::Schema { found } if found == other));
            assert!([other, SCHEMA].iter().all(|name| error.to_string().contains(name)));
        }
        assert!(matches!(from_json("{}"), Err(JsonError::Shape(_))));
        assert!(matches!(from_json("not json"), Err(JsonError::Shape(_))));
    }
}
