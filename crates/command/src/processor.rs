//! What AEGIS saves on the processor at hand, where that was measured on one of its kind.

use tdekit_key_crypto::Algorithm;

/// A kind of processors on which AES-GCM costs more than AEGIS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// VAES, without AVX-512.
    VaesAlone,
    /// AES, without VAES.
    AesAlone,
}

impl Kind {
    /// Returns the kind of this machine's processor, if it is one of these.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    pub(crate) fn here() -> Option<Self> {
        Self::of(
            std::is_x86_feature_detected!("aes"),
            std::is_x86_feature_detected!("vaes"),
            std::is_x86_feature_detected!("avx512f"),
        )
    }

    /// Nothing was measured on other processors.
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    pub(crate) fn here() -> Option<Self> {
        None
    }

    #[cfg_attr(not(any(target_arch = "x86", target_arch = "x86_64")), allow(dead_code))]
    fn of(aes: bool, vaes: bool, avx512: bool) -> Option<Self> {
        match (aes, vaes, avx512) {
            (_, true, false) => Some(Self::VaesAlone),
            (true, false, _) => Some(Self::AesAlone),
            _ => None,
        }
    }

    /// Returns what was measured, in a sentence.
    fn measured(self) -> &'static str {
        match self {
            Self::VaesAlone => {
                "This processor has VAES and no AVX-512: on one of its kind (AMD Zen 3) encryption \
                 cost +10.1 % of CPU with AES_256 and +4.2 % with AEGIS_256X2."
            }
            Self::AesAlone => {
                "This processor has AES and no VAES: on one of its kind (AMD Zen 1) encryption \
                 cost +35.6 % of CPU with AES_256 and +16.6 % with AEGIS_256X2."
            }
        }
    }
}

/// Returns a line on what AEGIS would save, for a database under `algorithm`. None where it is
/// AEGIS already, where this build does not offer it, and on other processors.
pub(crate) fn advice(algorithm: &str, kind: Option<Kind>) -> Option<String> {
    let other = Algorithm::Aegis256X2.check_offered().is_ok() && algorithm.starts_with("AES_");
    let measured = kind.filter(|_| other)?.measured();
    Some(format!("{measured} AEGIS is an RFC: it is neither approved by FIPS nor a NIST standard."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_measured_kinds_have_advice() {
        assert_eq!(Kind::of(true, true, false), Some(Kind::VaesAlone));
        assert_eq!(Kind::of(true, false, false), Some(Kind::AesAlone));
        assert_eq!(Kind::of(true, false, true), Some(Kind::AesAlone));
        assert_eq!((Kind::of(true, true, true), Kind::of(false, false, false)), (None, None));
        assert_eq!(advice("AES_256", None), None);
    }

    #[test]
    fn advice_names_aegis_and_what_it_is_not() {
        let offered = Algorithm::Aegis256X2.check_offered().is_ok();
        for (kind, processor) in [(Kind::VaesAlone, "Zen 3"), (Kind::AesAlone, "Zen 1")] {
            let told = advice("AES_256", Some(kind));
            assert_eq!(told.is_some(), offered);
            if let Some(told) = told {
                let wanted = [processor, "AEGIS_256X2", "neither approved by FIPS", "NIST"];
                assert!(wanted.iter().all(|words| told.contains(words)), "{told}");
            }
            assert_eq!(advice("AEGIS_256X2", Some(kind)), None);
        }
    }
}
