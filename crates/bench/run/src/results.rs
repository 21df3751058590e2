//! The results document before any measurement, with the settings of its run.

use tdekit_bench_report::{Environment, Results, SCHEMA, Settings, Subject, Tool};
use tdekit_sqlite_client::BUSY_WAIT;

use crate::plan::Config;

/// Confidence of every interval, in thousandths.
const CONFIDENCE_PERMILLE: u32 = 950;

/// Confidence of every interval, 0 to 1.
pub(crate) fn confidence() -> f64 {
    f64::from(CONFIDENCE_PERMILLE) / 1000.0
}

/// Returns results without any measurements.
pub(crate) fn empty_results(config: &Config, environment: Environment, started: String) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "tdekit".to_owned(), version: config.version.clone() },
        started,
        control: config.given.basics.aa,
        command: config.command.clone(),
        environment,
        settings: Settings {
            journal_mode: config.given.journal_mode.clone(),
            synchronous: config.given.synchronous.clone(),
            cache_size: config.given.cache_size,
            processes: config.processes,
            restarts: config.restarts,
            pairs: config.pairs,
            busy_wait_us: u64::try_from(BUSY_WAIT.as_micros()).unwrap_or(u64::MAX),
            algorithm: if config.given.basics.aa {
                "none".to_owned()
            } else {
                config.given.basics.algorithm().to_owned()
            },
            confidence_permille: CONFIDENCE_PERMILLE,
            seed: config.given.basics.seed,
            stopping: config.stopping,
            rate_per_s: config.given.rate.filter(|_| config.experiments.crud),
            think_time: config.given.think_time.0.filter(|_| config.experiments.crud),
            drop_caches: config.given.drop_caches,
            ..Settings::default()
        },
        subject: Subject { generated: config.database.is_none(), ..Subject::default() },
        ..Results::default()
    }
}
