//! Servers whose keys are wrong, damaged or gone: they stop before they read data, with one clear
//! line, and start again when the keys are back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use component_keyring_tdekit::Config;
use tdekit_private_mariadb::ServerError;

use crate::life::{count, files, make_rows};
use tdekit_faults_mysql::{Keys, NAMESPACE, Rig, text};

pub(crate) struct Estate {
    pub(crate) rig: Rig,
    pub(crate) keys: Keys,
    pub(crate) data: PathBuf,
}

impl Estate {
    /// A server that was stopped, with encrypted data.
    pub(crate) fn new() -> Option<Self> {
        let rig = Rig::new()?;
        let keys = rig.keys("home");
        let data = rig.fresh("data");
        let server = rig.start(&rig.with("server", &text(&keys.config())), &data);
        make_rows(&server);
        server.stop().unwrap();
        Some(Self { rig, keys, data })
    }

    /// A server with this configuration stops, names the fault, and leaves the data as it is.
    pub(crate) fn is_refused(&self, directory: &str, config: &str, fault: &str) {
        let programs = self.rig.with(directory, config);
        let before = contents(&self.data);
        let outcome = self.rig.try_start(&programs, &self.data);
        let Err(ServerError::Ended { status, log }) = outcome else {
            panic!("{fault}: {:?}", outcome.map(drop));
        };
        assert_eq!(status.code(), Some(1), "{log}");
        let line = log.lines().rev().find(|line| line.contains("[ERROR] [tdekit]"));
        assert!(line.is_some() && log.contains(fault), "{fault}: {log}");
        assert!(contents(&self.data) == before, "{fault}: a file of the data changed");
    }

    fn works(&self, directory: &str) {
        let programs = self.rig.with(directory, &text(&self.keys.config()));
        let server = self.rig.start(&programs, &self.data);
        assert_eq!(count(&server), "2");
        server.stop().unwrap();
    }
}

fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(directory).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_server_without_its_keys_stops_before_it_reads_data() {
    let Some(estate) = Estate::new() else { return };
    let other = estate.rig.keys("other");
    estate.is_refused("a", &text(&other.config()), "the data was encrypted with the keys");
    let config = estate.keys.config();
    let gone = Config { store: estate.rig.path("nowhere"), ..config.clone() };
    estate.is_refused("b", &text(&gone), "there is no key store at");
    let other_key = Config { key_file: other.config().key_file, ..config.clone() };
    estate.is_refused("c", &text(&other_key), "does not open the key store");
    let no_certificate = Config { certificate: "Nobody".to_owned(), ..config.clone() };
    estate.is_refused("d", &text(&no_certificate), "no certificate Nobody");
    let elsewhere = Config { namespace: "elsewhere".to_owned(), ..config };
    estate.is_refused("e", &text(&elsewhere), "in namespace elsewhere");
    estate.is_refused("f", "{}", "component_keyring_tdekit.cnf: ");
    estate.works("g");
}

#[test]
fn damaged_or_foreign_keys_are_refused_and_left_as_they_are() {
    let Some(estate) = Estate::new() else { return };
    let (stored, config) = (estate.keys.stored(), text(&estate.keys.config()));
    let good = fs::read(&stored).unwrap();
    let places = [2, good.len() / 3, good.len() / 2, good.len() - 40];
    for (round, at) in places.into_iter().enumerate() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&stored, &bad).unwrap();
        estate.is_refused(&format!("flip{round}"), &config, "named keys");
        assert_eq!(fs::read(&stored).unwrap(), bad);
    }
    fs::write(&stored, &good[..good.len() / 2]).unwrap();
    estate.is_refused("cut", &config, "named keys");

    // Another store's file of the same namespace.
    let other = estate.rig.keys("other");
    let unlocked = other.unlock();
    let name = tdekit_key_store::KeyName { id: "k".to_owned(), owner: String::new() };
    let secret = tdekit_key_store::SecretBytes::random(32).unwrap();
    let certificate = &other.config().certificate;
    unlocked.add_named_key(NAMESPACE, certificate, &name, "AES", &secret).unwrap();
    fs::copy(other.stored(), &stored).unwrap();
    estate.is_refused("foreign", &config, "no certificate");
    fs::write(&stored, good).unwrap();
    estate.works("again");
}
