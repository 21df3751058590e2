//! Cost of the keyring at the start of a server: with the component and with MySQL's own keyring in
//! a file, in turn. Argument: number of rounds.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use std::time::Instant;

use tdekit_faults_mysql::{Keys, Rig, text};
use tdekit_private_mariadb::{Programs, Server, ServerConfig};

const ROUNDS: usize = 40;
/// 95 % of a normal distribution lie within this many standard deviations.
const DEVIATIONS: f64 = 1.96;

/// A server with data of its own.
struct Kind {
    name: &'static str,
    programs: Programs,
    config: ServerConfig,
    starts_ms: Vec<f64>,
}

fn main() {
    let given = std::env::args().nth(1).map(|rounds| rounds.parse().unwrap());
    let rounds = given.unwrap_or(ROUNDS);
    let Some(rig) = Rig::new() else { return };
    let keys: Keys = rig.keys("home");
    let mut kinds = [
        kind(&rig, "component_keyring_file", rig.with_file_keyring("file")),
        kind(&rig, "component_keyring_tdekit", rig.with("tdekit", &text(&keys.config()))),
    ];
    for round in 0..rounds {
        for at in 0..kinds.len() {
            // Each is the first one as often as the others.
            let of = (at + round) % kinds.len();
            let Kind { programs, config, starts_ms, .. } = &mut kinds[of];
            let begun = Instant::now();
            let server = Server::start(programs, config).unwrap();
            starts_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            server.stop().unwrap();
        }
    }
    for kind in &kinds {
        let (mean, within) = mean(&kind.starts_ms);
        println!("{}: {mean:.1} ms a start (+- {within:.1})", kind.name);
    }
    let [file, ours] = &kinds;
    let more: Vec<_> =
        ours.starts_ms.iter().zip(&file.starts_ms).map(|(ours, file)| ours - file).collect();
    let (mean, within) = mean(&more);
    println!("{} more: {mean:+.1} ms (+- {within:.1}), {rounds} rounds", ours.name);
}

/// Makes the data, with an encrypted table and so with a master key.
fn kind(rig: &Rig, name: &'static str, programs: Programs) -> Kind {
    let config = rig.config(rig.fresh(&format!("data of {name}")));
    let server = Server::start(&programs, &config).unwrap();
    server
        .sql("CREATE DATABASE app; CREATE TABLE app.t (i INT); INSERT INTO app.t VALUES (1)")
        .unwrap();
    server.stop().unwrap();
    Kind { name, programs, config, starts_ms: Vec::new() }
}

/// Returns the mean, and half of the width of its 95 % interval.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, DEVIATIONS * (squares / (count - 1.0) / count).sqrt())
}
