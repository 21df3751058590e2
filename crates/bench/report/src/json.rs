//! The JSON document.

mod older;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{OLDER_SCHEMAS, Results, SCHEMA};
use crate::summary::summarize;

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or not of the shape.
    #[error("not a results document: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another or a newer document.
    #[error("results document of schema `{found}`; this version reads `{SCHEMA}`")]
    Schema {
        /// The document's own name for its shape.
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

/// The document as text, ending in a newline.
///
/// # Errors
/// Fails when a number cannot be written as JSON.
pub fn to_json(results: &Results) -> Result<String, JsonError> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    Ok(text)
}

/// Reads a document. What is computed of an older one is computed anew.
///
/// # Errors
/// Fails on anything but a document of [`SCHEMA`] or an older one.
pub fn from_json(text: &str) -> Result<Results, JsonError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text)?;
    if head.schema == SCHEMA {
        return Ok(serde_json::from_str(text)?);
    }
    if !OLDER_SCHEMAS.contains(&head.schema.as_str()) {
        return Err(JsonError::Schema { found: head.schema });
    }
    let mut document: Value = serde_json::from_str(text)?;
    older::bring_up(&mut document);
    let mut results = serde_json::from_value(document)?;
    summarize(&mut results);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{example, whole};
    use crate::figures::Comparison;

    #[test]
    fn round_trip() {
        for results in [example(), whole()] {
            let text = to_json(&results).unwrap();
            assert_eq!(from_json(&text).unwrap(), results);
        }
    }

    /// Documents as the versions before wrote them: read, summarised again, and shown.
    #[test]
    fn documents_of_older_schemas_are_read() {
        for (name, text) in [
            ("1", include_str!("../../../../tests/fixtures/results/tdekit-bench-1.json")),
            ("2", include_str!("../../../../tests/fixtures/results/tdekit-bench-2.json")),
        ] {
            let results = from_json(text).unwrap();
            assert!(text.contains(&format!("tdekit-bench/{name}")));
            assert_eq!(results.schema, SCHEMA);
            let before: Value = serde_json::from_str(text).unwrap();
            let before = &before["summary"];
            let summary = &results.embedded.as_ref().unwrap().summary;
            assert!(before.get("headlines").is_none() && !summary.pooled.is_empty());
            let old: Vec<Comparison> =
                serde_json::from_value(before["comparisons"].clone()).unwrap();
            assert!(!old.is_empty());
            for (old, new) in old.iter().zip(&summary.comparisons) {
                assert_eq!((old.metric, &old.side), (new.metric, &new.side), "{name}");
                assert!((old.ratio - new.ratio).abs() < 1e-12, "{name}");
            }
            assert!(crate::terminal(&results).contains("mix 4/3/3"));
        }
    }

    #[test]
    fn another_schema_is_refused() {
        let text = to_json(&example()).unwrap().replace(SCHEMA, "tdekit-bench/99");
        assert!(matches!(
            from_json(&text),
            Err(JsonError::Schema { found }) if found == "tdekit-bench/99"
        ));
        assert!(matches!(from_json("{}"), Err(JsonError::Shape(_))));
        assert!(matches!(from_json("not json"), Err(JsonError::Shape(_))));
    }
}
