//! The cost of encryption for a database, from results of the bench.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tdekit_key_store::read_ordinary;

const MAX_BYTES: u64 = 64 << 20;
/// Prefix of the results' schemas.
const SCHEMA: &str = "tdekit-bench/";
/// Name of the comparison of all work together.
const HEADLINE: &str = "headline";

/// The cost of encryption on one database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Elapsed time, encrypted against plain; 1.09 is 9 % more.
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Time of the measurement, RFC 3339.
    pub(crate) measured_at: String,
}

/// Costs by the path of the measured database.
#[derive(Debug, Default)]
pub(crate) struct Costs(BTreeMap<String, Cost>);

#[derive(Deserialize)]
struct Results {
    schema: String,
    started: String,
    subject: Option<Subject>,
    embedded: Option<Section>,
}

#[derive(Deserialize)]
struct Subject {
    /// The absolute path of a database that was not generated.
    path: Option<String>,
}

#[derive(Deserialize)]
struct Section {
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    pooled: Vec<Pooled>,
}

#[derive(Deserialize)]
struct Pooled {
    id: String,
    metric: String,
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Costs {
    /// Adds results of the bench. Those of a generated database belong to no listed one.
    ///
    /// # Errors
    /// In words: the file cannot be read, or has no results.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), String> {
        let refused = |reason: String| format!("{}: {reason}", path.display());
        let bytes = read_ordinary(path, MAX_BYTES).map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or_else(|| refused("there is no such file".to_owned()))?;
        let results: Results = serde_json::from_slice(&bytes)
            .map_err(|error| refused(format!("not results of the bench: {error}")))?;
        if !results.schema.starts_with(SCHEMA) {
            return Err(refused("not results of the bench".to_owned()));
        }
        let path = results.subject.and_then(|subject| subject.path);
        let (Some(database), Some(section)) = (path, results.embedded) else { return Ok(()) };
        let found = section
            .summary
            .pooled
            .into_iter()
            .find(|pooled| pooled.id == HEADLINE && pooled.metric == "elapsed");
        if let Some(Pooled { ratio, low: Some(low), high: Some(high), .. }) = found {
            let measured_at = results.started;
            let known = self.0.get(&database);
            if known.is_none_or(|known| known.measured_at < measured_at) {
                self.0.insert(database, Cost { ratio, low, high, measured_at });
            }
        }
        Ok(())
    }

    /// Returns the newest cost of the database at a path.
    pub(crate) fn of(&self, path: &str) -> Option<Cost> {
        self.0.get(path).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_results_of_a_database_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, started: &str, ratio: f64, path: &str| {
            let json = serde_json::json!({
                "schema": "tdekit-bench/4", "started": started, "subject": { "path": path },
                "embedded": { "summary": { "pooled": [
                    { "id": "headline", "metric": "cpu", "ratio": 9.0, "low": 1.0, "high": 9.0 },
                    { "id": "headline", "metric": "elapsed", "ratio": ratio, "low": 1.01,
                      "high": 1.2 }] } },
            });
            let path = dir.path().join(name);
            std::fs::write(&path, json.to_string()).unwrap();
            path
        };
        let mut costs = Costs::default();
        costs.add(&file("b.json", "2026-11-24T10:00:00Z", 1.09, "/srv/shop.db")).unwrap();
        costs.add(&file("a.json", "2026-11-20T10:00:00Z", 1.50, "/srv/shop.db")).unwrap();
        assert_eq!(costs.of("/srv/shop.db").unwrap().ratio, 1.09);
        assert_eq!(costs.of("/srv/hr.db"), None);
        std::fs::write(dir.path().join("c.json"), "{}").unwrap();
        for wrong in ["c.json", "none.json"] {
            let told = costs.add(&dir.path().join(wrong)).unwrap_err();
            assert!(told.contains(wrong), "{told}");
        }
    }
}
