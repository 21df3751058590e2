//! Recipients, signatures, certificates of a real key store.

use std::fs;
use std::path::Path;

use crate::common::*;
use tdekit_backup_media::ContentHash;
use tdekit_backup_run::{
    BackupJob, BackupOutcome, CertificateNames, Encryption, Mode, Run, RunError, Sign,
    add_recipients, sign,
};
use tdekit_key_crypto::{Algorithm, SecretBytes};
use tdekit_key_store::{KeyStore, NewCertificate, PasswordParams, StoreError, Unlock, now_seconds};

fn stream_job<'a>(bytes: &[u8]) -> BackupJob<'a> {
    BackupJob { encryption: encryption(), mode: Mode::Append, ..BackupJob::new(stream(bytes)) }
}

fn read_by(key: Key, bak: &Path, position: u32) -> Result<Vec<u8>, RunError> {
    let mut out = Vec::new();
    let media = open(&[bak]).unwrap();
    media.restore_stream(Some(position), Some(&key), &mut out, &Run::default())?;
    Ok(out)
}

#[test]
fn each_of_several_recipients_opens_a_set_and_nobody_else() {
    let dir = Dir::new();
    let bak = dir.path("a.bak");
    let keys = Keys(vec![Key(1), Key(2), Key(3)]);
    let algorithm = Algorithm::Aes256;
    let job = BackupJob {
        encryption: Some(Encryption { algorithm, recipients: &keys }),
        mode: Mode::Append,
        ..BackupJob::new(stream(b"text"))
    };
    back_up(job, &[&bak]).unwrap();
    for key in [1, 2, 3] {
        assert_eq!(read_by(Key(key), &bak, 1).unwrap(), b"text");
    }
    let refused = read_by(Key(4), &bak, 1).unwrap_err();
    match refused {
        RunError::Store(StoreError::CertificateMissing { wanted }) => assert_eq!(wanted.len(), 3),
        other => panic!("{other}"),
    }
    let media = open(&[&bak]).unwrap();
    let without = media.restore_stream(None, None, &mut Vec::new(), &Run::default());
    assert!(matches!(without, Err(RunError::KeyNeeded { position: 1 })));
    let nobody = Keys(Vec::new());
    let job = BackupJob {
        encryption: Some(Encryption { algorithm, recipients: &nobody }),
        ..BackupJob::new(stream(b"text"))
    };
    back_up(job, &[&dir.path("b.bak")]).unwrap_err();
    assert_eq!(dir.names(), ["a.bak"]);
}

/// Unwraps another secret than that of the set.
struct Liar;

impl tdekit_backup_run::UnwrapSecret for Liar {
    fn unwrap_secret(&self, _: &[tdekit_key_store::WrappedDek]) -> Result<SecretBytes, StoreError> {
        Ok(SecretBytes::from_slice(&[7; 32])?)
    }
}

#[test]
fn a_secret_of_another_set_is_refused() {
    let dir = Dir::new();
    let bak = dir.path("a.bak");
    back_up(stream_job(b"text"), &[&bak]).unwrap();
    let media = open(&[&bak]).unwrap();
    let refused = media.restore_stream(None, Some(&Liar), &mut Vec::new(), &Run::default());
    assert!(matches!(refused, Err(RunError::WrongKey { position: 1 })));
    let refused = media.verify(None, Some(&Liar), &Run::default());
    assert!(matches!(refused, Err(RunError::WrongKey { position: 1 })));
}

#[test]
fn a_recipient_is_added_without_touching_data() {
    let dir = Dir::new();
    for paths in [
        vec![dir.path("a")],
        vec![dir.path("m1"), dir.path("m2")],
        vec![dir.path("s1"), dir.path("s2")],
    ] {
        let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
        let text = vec![5; 3 << 20];
        let stripes = paths[0].ends_with("s1");
        for _ in 0..2 {
            let job = stream_job(&text);
            back_up(if stripes { striped(job) } else { job }, &paths).unwrap();
        }
        let before: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
        let added = add_recipients(targets(&paths), Some(1), &KEY, &Key(9)).unwrap();
        assert_eq!(added.len(), 1);
        for (path, before) in paths.iter().zip(&before) {
            let now = fs::read(path).unwrap();
            assert!(now.starts_with(before) && now.len() < before.len() + 2000);
        }
        let media = open(&paths).unwrap();
        let names: Vec<_> = media.sets()[0].recipients.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["Cert90", "Cert9"]);
        assert_eq!(media.sets()[1].recipients.len(), 1);
        for key in [KEY, Key(9)] {
            let mut out = Vec::new();
            media.restore_stream(Some(1), Some(&key), &mut out, &Run::default()).unwrap();
            assert!(out == text);
        }
        let refused =
            media.restore_stream(Some(2), Some(&Key(9)), &mut Vec::new(), &Run::default());
        assert!(matches!(refused, Err(RunError::Store(_))));
        let refused = add_recipients(targets(&paths), Some(1), &Key(8), &Key(7));
        assert!(matches!(refused, Err(RunError::Store(_))));
        // The new recipient opens it, so it can add others; further sets can be appended.
        add_recipients(targets(&paths), Some(1), &Key(9), &Key(8)).unwrap();
        let job = stream_job(b"third");
        let outcome = back_up(if stripes { striped(job) } else { job }, &paths).unwrap();
        assert_eq!(outcome.position, 3);
        let media = open(&paths).unwrap();
        assert!(media.findings().is_empty());
        for position in 1..=3 {
            let report = media.verify(Some(position), Some(&KEY), &Run::default()).unwrap();
            assert!(report.damages.is_empty());
        }
    }
}

#[test]
fn recipients_cannot_be_added_to_what_is_not_there_or_plain() {
    let dir = Dir::new();
    let bak = dir.path("a.bak");
    let refused = add_recipients(targets(&[&bak]), None, &KEY, &Key(1));
    assert!(matches!(refused, Err(RunError::Missing { .. })));
    let plain = BackupJob { encryption: None, ..stream_job(b"text") };
    back_up(plain, &[&bak]).unwrap();
    let refused = add_recipients(targets(&[&bak]), None, &KEY, &Key(1));
    assert!(matches!(refused, Err(RunError::Option { .. })));
    let refused = add_recipients(targets(&[&bak]), Some(2), &KEY, &Key(1));
    assert!(matches!(refused, Err(RunError::NoSet { position: 2, sets: 1 })));
}

#[test]
fn a_media_set_of_version_1_gets_signatures_of_version_1() {
    let dir = Dir::new();
    let (old, new) = (dir.path("old"), dir.path("new"));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/1/media");
    fs::copy(fixture.join("sets.bak"), &old).unwrap();
    let signer = Signer::new();
    for (path, version, hash) in [(&old, 1, ContentHash::Sha256), (&new, 2, ContentHash::Blake3)] {
        let job = BackupJob { allow_mixed: true, signer: Some(&signer), ..stream_job(b"more") };
        let made = back_up(job, &[path]).unwrap();
        if !made.signed {
            sign(targets(&[path]), &made, &signer).unwrap();
        }
        assert_eq!(fs::read(path).unwrap()[16], version);
        let media = open(&[path]).unwrap();
        assert_eq!(media.sets().last().unwrap().signatures[0].hash, hash);
        let run = Run::default();
        let report = media.verify(Some(made.position), Some(&KEY), &run).unwrap();
        assert_eq!((report.signatures.len(), report.signatures[0].problem), (1, None));
        media.restore_stream(Some(made.position), Some(&KEY), &mut Vec::new(), &run).unwrap();
    }
}

#[test]
fn a_signature_holds_for_its_set_and_its_blocks() {
    let dir = Dir::new();
    let signer = Signer::new();
    let run = Run::default();
    for paths in [vec![dir.path("a")], vec![dir.path("s1"), dir.path("s2")]] {
        let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
        let text: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
        let made: Vec<_> = [true, false]
            .into_iter()
            .map(|to_sign| {
                let signer = to_sign.then_some(&signer as &dyn Sign);
                let job = BackupJob { encryption: None, signer, ..stream_job(&text) };
                back_up(if paths.len() > 1 { striped(job) } else { job }, &paths).unwrap()
            })
            .collect();
        // The signature of a new file is published with its set.
        assert_eq!(made[0].signed, paths.len() == 1);
        if !made[0].signed {
            sign(targets(&paths), &made[0], &signer).unwrap();
        }
        let refused = sign(targets(&paths), &made[1], &signer);
        assert!(matches!(refused, Err(RunError::Option { what: "signature", .. })));
        // Another set is there than the one that was made.
        let other = BackupOutcome { set_id: made[1].set_id, ..made[0].clone() };
        assert!(matches!(sign(targets(&paths), &other, &signer), Err(RunError::NoSet { .. })));
        let media = open(&paths).unwrap();
        assert_eq!(media.sets()[0].signatures.len(), paths.len());
        assert!(media.sets()[1].signatures.is_empty());
        let report = media.verify(Some(1), None, &run).unwrap();
        assert_eq!(report.signatures.len(), paths.len());
        for signature in &report.signatures {
            assert_eq!((signature.problem, signature.subject.as_str()), (None, "CN=Signer"));
            assert_eq!(signature.certificate_der, signer.1);
        }
        // A plain set can be forged with matching checksums; its signature is then invalid.
        let last = paths[paths.len() - 1];
        let good = fs::read(last).unwrap();
        let record = good.windows(8).rposition(|bytes| bytes == b"tdeksig\n").unwrap();
        let header_len = u32::from_le_bytes(good[record + 8..record + 12].try_into().unwrap());
        let at = record + usize::try_from(header_len).unwrap() - 64 - 40;
        let mut forged = good.clone();
        forged[at] ^= 1;
        fs::write(last, &forged).unwrap();
        let media = open(&paths).unwrap();
        let held = media.verify(Some(1), None, &run).map(|report| {
            report.signatures.len() == paths.len()
                && report.signatures.iter().all(|signature| signature.problem.is_none())
        });
        assert!(!held.unwrap_or(false) || !media.findings().is_empty());
        fs::write(last, &good).unwrap();
    }
}

#[test]
fn a_certificate_that_expired_still_opens_and_wraps_nothing_new() {
    let dir = Dir::new();
    let bak = dir.path("a.bak");
    let unlock =
        Unlock::Key { key: SecretBytes::from_slice(&[1; 32]).unwrap(), origin: "test".to_owned() };
    let mut store =
        KeyStore::create(&dir.path("keys"), &unlock, PasswordParams::default()).unwrap();
    let key_type = None;
    let mut create = |name, expires_at| {
        let wanted = NewCertificate { name, subject: None, key_type, expires_at };
        store.create_certificate(&wanted).unwrap();
    };
    create("Long", now_seconds() + 86_400);
    // On a busy machine generating a key alone takes seconds.
    let expires_at = now_seconds() + 8;
    create("Short", expires_at);
    let names = ["Short".to_owned(), "Long".to_owned()];
    let recipients = CertificateNames { store: store.store(), names: &names };
    let job = |bytes| BackupJob {
        encryption: Some(Encryption { algorithm: Algorithm::Aes256, recipients: &recipients }),
        mode: Mode::Append,
        ..BackupJob::new(stream(bytes))
    };
    back_up(job(b"text"), &[&bak]).unwrap();
    while now_seconds() <= expires_at {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let refused = back_up(job(b"more"), &[&bak]);
    assert!(matches!(refused, Err(RunError::Store(StoreError::CertificateExpired { .. }))));
    let media = open(&[&bak]).unwrap();
    let mut out = Vec::new();
    media.restore_stream(None, Some(&store), &mut out, &Run::default()).unwrap();
    assert_eq!(out, b"text");
    let recipients = &media.sets()[0].recipients;
    let names: Vec<_> = recipients.iter().map(|recipient| recipient.name.as_str()).collect();
    assert_eq!(names, ["Short", "Long"]);
}

#[test]
fn a_certificate_that_is_not_there_leaves_nothing_behind() {
    let dir = Dir::new();
    let unlock =
        Unlock::Key { key: SecretBytes::from_slice(&[1; 32]).unwrap(), origin: "test".to_owned() };
    let store = KeyStore::create(&dir.path("keys"), &unlock, PasswordParams::default()).unwrap();
    let names = ["None".to_owned()];
    let recipients = CertificateNames { store: store.store(), names: &names };
    let job = BackupJob {
        encryption: Some(Encryption { algorithm: Algorithm::Aes256, recipients: &recipients }),
        ..BackupJob::new(stream(b"text"))
    };
    let refused = back_up(job, &[&dir.path("a.bak")]);
    assert!(matches!(refused, Err(RunError::Store(StoreError::CertificateMissing { .. }))));
    assert_eq!(dir.names(), ["keys"]);
}
