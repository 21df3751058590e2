//! Attacks on the command's verdicts.
//!
//! Each attack damages the files around a part, or stops a command midway, and then compares exit
//! code, JSON and the files under their final names with the original. `cargo xtask attack` runs
//! this with the release build; README and `docs/threat-model.md` describe it.

mod attack;
mod exchange;
mod files;
mod interrupt;
mod media;
mod place;
mod s3;
mod verdicts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use fastrand::Rng;

use crate::attack::{Attack, Row};
use crate::place::Place;

#[derive(Parser)]
#[command(about = "Attacks on the command's verdicts, in turn until time is up")]
struct Arguments {
    /// Directory of the built command and extension.
    #[arg(long)]
    programs: PathBuf,
    /// For how many seconds; each attack is made three times at least.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Seed of the first round of attempts; a round has its number added.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only attacks whose names hold this.
    #[arg(long)]
    only: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Minimum number of times that each attack is made.
const MIN_ROUNDS: u64 = 3;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns true if no outcome was wrong.
fn run(arguments: &Arguments) -> Result<bool> {
    let programs = arguments.programs.canonicalize().context("find the programs")?;
    let places = (0..9).map(|_| Place::new(&programs)).collect::<Result<Vec<_>>>()?;
    let mut attacks = media::attacks(&places[0])?;
    attacks.push(media::downgrade(&places[1])?);
    attacks.extend(files::database(&places[2])?);
    attacks.push(files::key_store(&places[3])?);
    attacks.push(files::work_files(&places[4])?);
    attacks.extend(interrupt::attacks(&places[5])?);
    match s3::attack(&places[6])? {
        Some(attack) => attacks.push(attack),
        None => eprintln!("no S3 server: `cargo xtask attack` starts one"),
    }
    attacks.extend(exchange::attack(&places[7])?);
    attacks.extend(verdicts::attacks(&places[8])?);
    let chosen =
        |attack: &Attack| arguments.only.as_ref().is_none_or(|part| attack.name.contains(&**part));
    attacks.retain(chosen);
    let mut rows: Vec<Row> = attacks.iter().map(|_| Row::default()).collect();
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    for seed in arguments.seed.. {
        for (attack, row) in attacks.iter_mut().zip(&mut rows) {
            if row.tried >= MIN_ROUNDS && Instant::now() >= until {
                continue;
            }
            let outcome = (attack.attempt)(&mut Rng::with_seed(seed))
                .with_context(|| format!("{}, attempt {seed}", attack.name))?;
            row.add(seed, outcome);
        }
        if Instant::now() >= until && rows.iter().all(|row| row.tried >= MIN_ROUNDS) {
            break;
        }
    }
    show(arguments.json, &attacks, &rows)?;
    Ok(rows.iter().all(|row| row.wrong == 0))
}

fn show(as_json: bool, attacks: &[Attack], rows: &[Row]) -> Result<()> {
    let named = attacks.iter().map(|attack| attack.name).zip(rows);
    if as_json {
        let values: Vec<_> = named
            .map(|(name, row)| {
                serde_json::json!({
                    "attack": name,
                    "tried": row.tried,
                    "refused": row.refused,
                    "right": row.right,
                    "wrong": row.wrong,
                    "examples": row.examples,
                })
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&values)?);
        return Ok(());
    }
    println!("| attack | times tried | refused | right data | wrong data accepted |");
    println!("|---|---|---|---|---|");
    for (name, row) in named {
        let Row { tried, refused, right, wrong, examples } = row;
        println!("| {name} | {tried} | {refused} | {right} | {wrong} |");
        for example in examples {
            eprintln!("{name}: {example}");
        }
    }
    Ok(())
}
