//! `tdekit mariadb verify`: checks a server's files, page by page, whether or not the server runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tdekit_backup_run::{CheckedKind, history};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mariadb::Keyring;
use tdekit_mariadb_admin::{MariadbError, Places, Progress, Report, Verify, verify};

use super::connection::ConnectionArgs;
use crate::error::CommandError;

const TEMPLATE: &str = "verify {bar:24} {percent:>3} %  {pos} of {len} pages  {eta} left";
/// Maximum number of findings of one file that are printed; `--json` has more.
const MAX_PRINTED: usize = 100;

/// Arguments of `mariadb verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyFilesArgs {
    /// Data directory [default: that of a server that is named, else /var/lib/mysql]
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// Look at N pages of each file, chosen at random, and at its first one
    #[arg(long, value_name = "N")]
    sample: Option<u32>,
    /// Open no page: needs no key store, and finds accidents only
    #[arg(long)]
    checksums_only: bool,
    /// Tablespaces and tables that are not encrypted at all are right, as they may be unless
    /// innodb_encrypt_tables is FORCE
    #[arg(long)]
    allow_plain: bool,
    /// Pages in the clear that the allocation map does not give out are right: what is left of
    /// rows that were deleted before the table was encrypted. The map itself is in the clear
    #[arg(long)]
    allow_unused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A bar on a terminal.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn expects(&self, pages: u64) {
        self.0.set_length(pages);
    }

    fn looked_at(&self, pages: u64) {
        self.0.inc(pages);
    }

    fn begins_anew(&self, pages: u64) {
        self.0.set_position(self.0.position().saturating_sub(pages));
    }

    fn ends(&self) {
        self.0.finish_and_clear();
    }
}

/// Checks a server's files.
pub(crate) fn run(args: &VerifyFilesArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let keyring = match args.checksums_only {
        true => None,
        false => {
            let store = session::open_unlocked_store(global)?;
            Some(Keyring::of(store).map_err(MariadbError::from)?)
        }
    };
    let connection = args.connection.connection();
    let client = connection.client();
    let places = match (&args.datadir, &client) {
        (Some(data), _) => Places { data: data.clone(), undo: None, log: None },
        (None, Some(client)) => Places::of(client)?,
        (None, None) => Places::default(),
    };
    let how = Verify {
        sample: args.sample,
        allow_plain: args.allow_plain,
        allow_unused: args.allow_unused,
    };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    let report = verify(&places, &how, keyring.as_ref(), client.as_ref(), &Bar(bar))?;
    match args.json {
        true => output::json(&report)?,
        false => tell(&report)?,
    }
    // A sample says nothing about the other pages.
    if args.sample.is_none() && !args.checksums_only {
        record(&report, &places.data, global);
    }
    match report.findings {
        0 => Ok(()),
        findings => Err(MariadbError::Findings { findings, path: places.data }.into()),
    }
}

/// Stores the counts for `tdekit overview`.
fn record(report: &Report, data: &Path, global: &GlobalArgs) {
    let data = std::fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    let spaces = report.tablespaces.iter().filter(|one| one.engine == "InnoDB");
    let encrypted = spaces.clone().filter(|one| one.encrypted).count();
    let mut versions: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for one in &report.tablespaces {
        let known = one.key_id.map(|id| versions.entry(id).or_default());
        known.into_iter().for_each(|known| known.extend(one.versions.keys()));
    }
    let tablespaces = spaces.count();
    let facts = serde_json::json!({
        "tablespaces": tablespaces, "encrypted": encrypted, "versions": versions,
    });
    let (data, facts) = (data.to_string_lossy(), facts.to_string());
    history::record_check(global, CheckedKind::Mariadb, &data, report.findings, Some(&facts));
}

fn tell(report: &Report) -> Result<(), CommandError> {
    let shown = report.tablespaces.iter().filter(|one| one.pages > 0 || one.finding_count > 0);
    let rows = shown.map(|one| {
        let number = |number: Option<u32>| number.map_or("-".to_owned(), |n| n.to_string());
        let key = if one.encrypted { number(one.key_id) } else { "none".to_owned() };
        let checked = match one.pages_checked == one.pages {
            true => one.pages.to_string(),
            false => format!("{} of {}", one.pages_checked, one.pages),
        };
        let file = Path::new(&one.file).strip_prefix(&report.data_directory);
        let file = file.map_or(one.file.clone(), |file| file.display().to_string());
        vec![
            file,
            number(one.space),
            key,
            checked,
            one.versions_shown(),
            one.finding_count.to_string(),
        ]
    });
    output::table(
        &["file", "space", "key", "pages checked", "pages by key version", "findings"],
        rows.collect(),
    )?;
    for one in report.tablespaces.iter().filter(|one| one.finding_count > 0) {
        output::line("")?;
        for finding in one.findings.iter().take(MAX_PRINTED) {
            let file = finding.file.as_ref().unwrap_or(&one.file);
            match finding.page {
                Some(page) => output::line(format_args!("{file}: page {page}: {}", finding.text))?,
                None => output::line(format_args!("{file}: {}", finding.text))?,
            }
        }
        let more = one.finding_count.saturating_sub(MAX_PRINTED as u64);
        if more > 0 {
            output::line(format_args!("{}: and {more} more", one.file))?;
        }
    }
    output::line("")?;
    if !report.not_checked.is_empty() {
        output::line("Not checked:")?;
        for what in &report.not_checked {
            output::line(format_args!("- {what}"))?;
        }
        output::line("")?;
    }
    let (pages, files) = (report.pages_checked, report.tablespaces.len());
    let trees = report.trees_checked;
    match report.findings {
        0 => Ok(output::line(format_args!(
            "{pages} pages of {files} tablespaces and tables, and {trees} index trees, were \
             checked: nothing is wrong in them."
        ))?),
        findings => Ok(output::line(format_args!(
            "{pages} pages of {files} tablespaces and tables, and {trees} index trees, were \
             checked: {findings} findings."
        ))?),
    }
}
