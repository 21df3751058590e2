//! `tdekit prune`: removes the media sets that no rule keeps.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use tdekit_backup_run::retention::{Fate, MediaFate, Pruned, Rules, Wanted, prune};
use tdekit_backup_run::{Root, RunError};
use tdekit_console::{Fit, GlobalArgs, output, session};
use tdekit_key_store::{RetentionConfig, StoreError, retention_config};

use crate::backup::report::{size, warn_reports};
use crate::error::CommandError;
use crate::progress::{Shown, heed_signals};
use crate::when::parse_length;

/// Arguments of `prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// A directory with media sets in and below it, a prefix of addresses such as
    /// s3://BUCKET/app/, or one media set
    place: OsString,
    #[command(flatten)]
    keep: KeepArgs,
    /// Only sets of this database, by its name or its path when it was backed up; others are kept
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The rules. Those on the command line take the place of all in the configuration.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// Keep all sets of this time before now, such as 24h or 30d
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    keep: Option<Duration>,
    /// Keep the newest sets of each database
    #[arg(long, value_name = "COUNT")]
    keep_last: Option<NonZeroU32>,
    /// Keep the newest set of each of the last days that have one (UTC)
    #[arg(long, value_name = "COUNT")]
    keep_daily: Option<NonZeroU32>,
    /// Keep the newest set of each of the last weeks that have one
    #[arg(long, value_name = "COUNT")]
    keep_weekly: Option<NonZeroU32>,
    /// Keep the newest set of each of the last months that have one
    #[arg(long, value_name = "COUNT")]
    keep_monthly: Option<NonZeroU32>,
}

/// Runs the command. It needs no key.
pub(crate) fn run(args: &PruneArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let rules = args.keep.rules(global)?;
    let wanted = Wanted { rules, database: args.database.as_deref(), dry_run: args.dry_run };
    if rules.is_empty() {
        return Err(RunError::NoRule.into());
    }
    let root = Root::of(&args.place)?;
    let mut pruned = prune(global, &root, &wanted, &Shown::default())?;
    if args.json {
        output::json(&pruned)?;
    } else {
        print(&pruned)?;
    }
    pruned.refuse_unfinished()?;
    // Of one media set nothing else can be meant.
    match (root, pruned.held()) {
        (Root::Media(place), sets @ 1..) => {
            Err(RunError::SetsStay { media: place.shown(), sets }.into())
        }
        _ => Ok(()),
    }
}

impl KeepArgs {
    /// Returns the rules of the command line alone.
    pub(crate) fn given(&self) -> Rules {
        let count = |count: Option<NonZeroU32>| count.map(NonZeroU32::get);
        Rules {
            within_s: self.keep.map(|length| length.as_secs()),
            last: count(self.keep_last),
            daily: count(self.keep_daily),
            weekly: count(self.keep_weekly),
            monthly: count(self.keep_monthly),
        }
    }

    /// Returns the rules of the command line, or of the configuration.
    ///
    /// # Errors
    /// Those of the configuration file.
    pub(crate) fn rules(&self, global: &GlobalArgs) -> Result<Rules, CommandError> {
        let count = |count: Option<NonZeroU32>| count.map(NonZeroU32::get);
        let given = self.given();
        if !given.is_empty() {
            return Ok(given);
        }
        let Ok(dir) = session::store_dir(global) else { return Ok(given) };
        let RetentionConfig { keep, keep_last, keep_daily, keep_weekly, keep_monthly } =
            retention_config(&dir)?;
        let within_s = keep.map(|text| match parse_length(&text) {
            Ok(length) => Ok(length.as_secs()),
            Err(_) => Err(StoreError::InvalidValue {
                what: "time of [retention] keep",
                value: text,
                reason: "is not like 24h or 30d",
            }),
        });
        Ok(Rules {
            within_s: within_s.transpose()?,
            last: count(keep_last),
            daily: count(keep_daily),
            weekly: count(keep_weekly),
            monthly: count(keep_monthly),
        })
    }
}

fn print(pruned: &Pruned) -> Result<(), CommandError> {
    let header = [
        ("FATE", Fit::Keep),
        ("MEDIA", Fit::Cut),
        ("DATABASE", Fit::CutOrDrop(2)),
        ("SETS", Fit::Drop(3)),
        ("NEWEST", Fit::Drop(1)),
        ("SIZE", Fit::Drop(4)),
        ("WHY", Fit::Cut),
    ];
    if !pruned.media.is_empty() {
        output::fitted_table(&header, pruned.media.iter().map(|it| row(it, pruned)).collect())?;
    }
    for media in &pruned.media {
        warn_reports(&media.findings);
        if let Some(error) = &media.error {
            output::warning(format_args!("{}: not removed: {error}", media.places.join(", ")));
        }
    }
    for each in &pruned.unreadable {
        output::warning(format_args!("{}: kept: {}", each.path.display(), each.error));
    }
    for place in &pruned.missing {
        output::warning(format_args!("the history knows a media set at {place}: it is not there"));
    }
    let going = |media: &&MediaFate| match pruned.dry_run {
        true => media.fate != Fate::Keep,
        false => media.removed,
    };
    let count = pruned.media.iter().filter(going).count();
    let verb = if pruned.dry_run { "Would remove" } else { "Removed" };
    output::line(format_args!(
        "{verb} {count} of {} media set(s), {}",
        pruned.media.len(),
        size(pruned.removed_bytes)
    ))?;
    if pruned.held() > 0 {
        output::note(format_args!(
            "note: {} set(s) that no rule keeps stay: sets cannot be taken out of a media set",
            pruned.held()
        ));
    }
    Ok(())
}

fn row(media: &MediaFate, pruned: &Pruned) -> Vec<String> {
    let fate = match (media.fate, pruned.dry_run, media.removed) {
        (Fate::Keep, ..) => "keep",
        (_, false, true) => "removed",
        (_, false, false) => "NOT REMOVED",
        (Fate::Remove, true, _) => "remove",
        (Fate::Finish, true, _) => "finish",
    };
    let mut why: Vec<&str> = Vec::new();
    for set in &media.sets {
        for reason in &set.keep {
            if !why.contains(&reason.as_str()) {
                why.push(reason);
            }
        }
    }
    match media.fate {
        Fate::Keep if !media.findings.is_empty() => why = vec!["it has findings"],
        Fate::Finish => why = vec!["its removal was begun"],
        Fate::Keep | Fate::Remove => {}
    }
    let mut databases: Vec<&str> = Vec::new();
    for set in &media.sets {
        if !databases.contains(&set.database_name.as_str()) {
            databases.push(&set.database_name);
        }
    }
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let newest = media.sets.iter().map(|set| set.backup_start_date.clone()).max();
    vec![
        fate.to_owned(),
        media.places.join(", "),
        or_dash(databases.join(", ")),
        media.sets.len().to_string(),
        newest.unwrap_or_else(|| "-".to_owned()),
        size(media.bytes),
        or_dash(why.join(", ")),
    ]
}
