//! Properties of sealing: sealed data opens, and nothing else does.

use proptest::prelude::*;
use tdekit_key_crypto::{Algorithm, CryptoError, NONCE_LEN, SealingKey, TAG_LEN};

fn sealing_algorithms() -> impl Strategy<Value = Algorithm> {
    let sealing: Vec<_> = Algorithm::all().iter().copied().filter(|a| a.seals_pages()).collect();
    prop::sample::select(sealing)
}

fn key(algorithm: Algorithm, seed: u8) -> SealingKey {
    let bytes: Vec<u8> = (seed..).take(algorithm.key_len()).collect();
    SealingKey::new(algorithm, &bytes).unwrap()
}

/// A message and its associated data.
#[derive(Clone, Debug)]
struct Message {
    nonce: [u8; NONCE_LEN],
    aad: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: [u8; TAG_LEN],
}

fn open(key: &mut SealingKey, message: &Message) -> Result<Vec<u8>, CryptoError> {
    let mut plaintext = vec![0xa5; message.ciphertext.len()];
    let opened =
        key.open(&message.nonce, &message.aad, &message.ciphertext, &message.tag, &mut plaintext);
    if opened.is_err() {
        assert!(plaintext.iter().all(|&byte| byte == 0), "plaintext left after a failure");
    }
    opened.map(|()| plaintext)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_sealed_opens_and_one_flipped_bit_fails(
        algorithm in sealing_algorithms(),
        seed in 0u8..200,
        nonce in any::<[u8; NONCE_LEN]>(),
        aad in prop::collection::vec(any::<u8>(), 0..300),
        plaintext in prop::collection::vec(any::<u8>(), 0..5000),
        bits in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let mut sealing = key(algorithm, seed);
        let mut ciphertext = vec![0; plaintext.len()];
        let tag = sealing.seal(&nonce, &aad, &plaintext, &mut ciphertext).unwrap();
        let message = Message { nonce, aad, ciphertext, tag };
        let mut opening = key(algorithm, seed);
        prop_assert_eq!(open(&mut opening, &message), Ok(plaintext.clone()));
        if plaintext.len() >= 16 {
            prop_assert_ne!(&message.ciphertext, &plaintext);
        }

        let total = NONCE_LEN + TAG_LEN + message.aad.len() + message.ciphertext.len();
        for bit in bits {
            let (mut flipped, bit) = (message.clone(), bit.index(total * 8));
            let byte = flipped
                .nonce
                .iter_mut()
                .chain(&mut flipped.tag)
                .chain(&mut flipped.aad)
                .chain(&mut flipped.ciphertext)
                .nth(bit / 8)
                .unwrap();
            *byte ^= 1 << (bit % 8);
            prop_assert_eq!(open(&mut opening, &flipped), Err(CryptoError::Authentication));
        }
        prop_assert_eq!(open(&mut opening, &message), Ok(plaintext));
        prop_assert_eq!(
            open(&mut key(algorithm, seed + 1), &message),
            Err(CryptoError::Authentication)
        );
    }

    #[test]
    fn aad_of_another_length_fails(
        algorithm in sealing_algorithms(),
        nonce in any::<[u8; NONCE_LEN]>(),
        aad in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let mut sealing = key(algorithm, 1);
        let mut ciphertext = [0; 64];
        let tag = sealing.seal(&nonce, &aad, &[7; 64], &mut ciphertext).unwrap();
        let mut message = Message { nonce, aad, ciphertext: ciphertext.to_vec(), tag };
        message.aad.pop();
        prop_assert_eq!(open(&mut sealing, &message), Err(CryptoError::Authentication));
        message.aad.extend([0, 0]);
        prop_assert_eq!(open(&mut sealing, &message), Err(CryptoError::Authentication));
    }
}

/// Flips every bit of a small message, without sampling.
#[test]
fn every_single_flipped_bit_fails() {
    for &algorithm in Algorithm::all().iter().filter(|a| a.seals_pages()) {
        let mut key = key(algorithm, 3);
        let mut ciphertext = vec![0; 70];
        let nonce = [9; NONCE_LEN];
        let tag = key.seal(&nonce, b"page 1", &[1; 70], &mut ciphertext).unwrap();
        let message = Message { nonce, aad: b"page 1".to_vec(), ciphertext, tag };
        for bit in 0..(NONCE_LEN + 6 + 70 + TAG_LEN) * 8 {
            let mut flipped = message.clone();
            *flipped
                .nonce
                .iter_mut()
                .chain(&mut flipped.aad)
                .chain(&mut flipped.ciphertext)
                .chain(&mut flipped.tag)
                .nth(bit / 8)
                .unwrap() ^= 1 << (bit % 8);
            assert_eq!(open(&mut key, &flipped), Err(CryptoError::Authentication), "bit {bit}");
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for &algorithm in Algorithm::all() {
        let wrong = vec![0; algorithm.key_len() - 1];
        assert!(matches!(
            SealingKey::new(algorithm, &wrong),
            Err(CryptoError::KeyLength { actual, .. }) if actual == wrong.len()
        ));
    }
    assert_eq!(
        SealingKey::new(Algorithm::TripleDes3Key, &[1; 24]).err(),
        Some(CryptoError::NotForPages(Algorithm::TripleDes3Key))
    );
    for &algorithm in Algorithm::all().iter().filter(|a| a.seals_pages()) {
        let mut key = key(algorithm, 1);
        let mut out = [0xa5; 16];
        let mismatch = CryptoError::BufferMismatch { input_len: 15, output_len: 16 };
        assert_eq!(key.seal(&[0; 24], b"", &[1; 15], &mut out), Err(mismatch.clone()));
        assert_eq!(key.open(&[0; 24], b"", &[1; 15], &[0; 16], &mut out), Err(mismatch));
        assert_eq!(out, [0; 16]);
    }
}

/// More prefixes than the cache holds, in an order that evicts entries and returns to them.
#[test]
fn subkeys_survive_eviction() {
    let mut key = key(Algorithm::Aes256, 5);
    let messages: Vec<_> = (0..1500u32)
        .map(|number| {
            let mut nonce = [0; NONCE_LEN];
            nonce[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_le_bytes());
            let mut ciphertext = vec![0; 40];
            let tag = key.seal(&nonce, b"", &[number as u8; 40], &mut ciphertext).unwrap();
            Message { nonce, aad: vec![], ciphertext, tag }
        })
        .collect();
    for step in [1, 7, 611] {
        for number in (0..messages.len()).map(|at| at * step % messages.len()) {
            assert_eq!(open(&mut key, &messages[number]).unwrap(), [number as u8; 40]);
        }
    }
}
