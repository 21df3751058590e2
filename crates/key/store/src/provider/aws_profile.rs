//! Profiles of AWS's programs: the shared files `~/.aws/credentials` and `~/.aws/config`.
//!
//! Keys, region and endpoint are read. A profile that names a role, a single sign-on or a program
//! is recognized, so that its user learns that nothing here follows it.

use std::fmt;
use std::path::Path;

use zeroize::Zeroizing;

use super::secret_file::read_private_file;
use crate::error::StoreError;
use crate::variables::as_header;

const MAX_FILE_BYTES: u64 = 256 << 10;

/// The settings of a profile. Those that the file lacks are `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AwsProfile {
    /// Id of the access key.
    pub key_id: Option<String>,
    /// The access key's secret.
    pub secret_key: Option<Zeroizing<String>>,
    /// Token of a session.
    pub token: Option<Zeroizing<String>>,
    /// Region, such as `eu-west-1`.
    pub region: Option<String>,
    /// Address of a server other than Amazon's.
    pub endpoint: Option<String>,
    /// Name of the role that the profile assumes.
    role: Option<String>,
    /// The setting that names a single sign-on or a program.
    other: Option<&'static str>,
}

impl fmt::Debug for AwsProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { region, endpoint, .. } = self;
        let mut shown = f.debug_struct("AwsProfile");
        shown.field("region", region).field("endpoint", endpoint).finish_non_exhaustive()
    }
}

impl AwsProfile {
    /// Returns true if there is a whole key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.key_id.is_some() && self.secret_key.is_some()
    }

    /// Returns true if the profile assumes a role. AWS's own programs then use its keys for nothing
    /// else.
    #[must_use]
    pub fn has_role(&self) -> bool {
        self.role.is_some()
    }

    fn elsewhere(&self) -> Option<String> {
        let role = self.role.as_ref().map(|role| format!("the role {role} (role_arn)"));
        role.or_else(|| self.other.map(|setting| format!("its setting {setting}")))
    }

    /// Returns the reason why a profile, which may stand in several files, gives no keys.
    #[must_use]
    pub fn no_keys(path: &Path, name: &str, found: &[&Self]) -> String {
        match found.iter().find_map(|profile| profile.elsewhere()) {
            Some(elsewhere) => format!(
                "profile {name:?} takes its credentials from {elsewhere}, which is not supported: \
                 name a profile with keys; for a role, set AWS_WEB_IDENTITY_TOKEN_FILE and \
                 AWS_ROLE_ARN, or the keys and the token that it gives"
            ),
            None => format!("{} has no profile {name:?} with keys", path.display()),
        }
    }

    /// Reads a profile from a shared file, whose sections are `[NAME]` or, but for the default one,
    /// `[profile NAME]`. Returns `None` without such a file or profile.
    ///
    /// # Errors
    /// As [`read_private_file`]; `Io` for a file that is not text, or has a control character in a
    /// value: clients put values into headers.
    pub fn read(path: &Path, name: &str) -> Result<Option<Self>, StoreError> {
        let fault = |reason: &str| StoreError::io("use", path)(std::io::Error::other(reason));
        let bytes = read_private_file(path, MAX_FILE_BYTES)?;
        let Some(bytes) = bytes.map(Zeroizing::new) else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| fault("it is not text"))?;
        let Some(found) = Self::parse(text, name) else { return Ok(None) };
        match found.fits_headers() {
            true => Ok(Some(found)),
            false => Err(fault("it has a control character in a value")),
        }
    }

    fn parse(text: &str, profile: &str) -> Option<Self> {
        let mut found = None;
        let (mut within, mut nested) = (false, false);
        for raw in text.lines() {
            let line = raw.trim();
            // Below a name without a value, indented lines are settings of one service.
            nested &= line.is_empty() || raw.starts_with([' ', '\t']);
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let name = name.trim();
                let long = name.strip_prefix("profile").filter(|it| it.starts_with([' ', '\t']));
                within = name == profile || long.is_some_and(|name| name.trim() == profile);
                nested = false;
                if within {
                    found.get_or_insert_with(Self::default);
                }
            } else if let (true, false, Some((name, value))) =
                (within, nested, line.split_once('='))
            {
                let value = value.trim();
                nested = value.is_empty();
                let found = found.get_or_insert_with(Self::default);
                found.set(name.trim(), Some(value.to_owned()).filter(|value| !value.is_empty()));
            }
        }
        found
    }

    fn set(&mut self, name: &str, value: Option<String>) {
        match name {
            "aws_access_key_id" => self.key_id = value,
            "aws_secret_access_key" => self.secret_key = value.map(Zeroizing::new),
            "aws_session_token" => self.token = value.map(Zeroizing::new),
            "region" => self.region = value,
            "endpoint_url" => self.endpoint = value,
            "role_arn" => self.role = value,
            "credential_process" => self.other = value.and(Some("credential_process")),
            "sso_session" => self.other = value.and(Some("sso_session")),
            "sso_start_url" => self.other = value.and(Some("sso_start_url")),
            _ => {}
        }
    }

    fn fits_headers(&self) -> bool {
        let secrets = [&self.secret_key, &self.token].map(|it| it.as_ref().map(|it| it.as_str()));
        let others = [&self.key_id, &self.region, &self.endpoint].map(Option::as_deref);
        let mut values = secrets.into_iter().chain(others).flatten();
        values.all(|value| as_header(value) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_of_a_header_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let keys = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n";
        for (more, mode, fits) in [
            ("", 0o600, true),
            ("aws_session_token = a\u{1}b\n", 0o600, false),
            ("endpoint_url = https://\u{7}\n", 0o600, false),
            ("", 0o644, false),
        ] {
            std::fs::write(&path, format!("{keys}{more}")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let read = AwsProfile::read(&path, "default");
            assert_eq!(read.is_ok(), fits, "{more:?} {mode:o}");
        }
        assert_eq!(AwsProfile::read(&dir.path().join("none"), "default").unwrap(), None);
    }

    #[test]
    fn a_profile_gives_its_own_settings() {
        let text = "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=S=+/\n\n\
                    [ prod ]\r\naws_access_key_id=B\naws_secret_access_key = T\n\
                    aws_session_token = X\nregion = eu-west-1\n[half]\naws_access_key_id=C\n\
                    [profile long]\nregion = r1\ns3 =\n\x20 endpoint_url = https://nested\n\n\
                    \x20 region = no\n\
                    endpoint_url = https://own:1\n[profiled]\nregion=p\n";
        let of = |name: &str| AwsProfile::parse(text, name);
        let default = of("default").unwrap();
        assert_eq!(default.key_id.as_deref(), Some("A"));
        assert_eq!(default.secret_key.as_ref().map(|it| it.as_str()), Some("S=+/"));
        assert!(default.has_keys() && default.token.is_none() && default.region.is_none());
        let prod = of("prod").unwrap();
        assert_eq!(prod.token.as_ref().map(|it| it.as_str()), Some("X"));
        assert_eq!(prod.region.as_deref(), Some("eu-west-1"));
        assert!(!of("half").unwrap().has_keys() && of("none").is_none() && of("d").is_none());
        let long = of("long").unwrap();
        assert_eq!(long.region.as_deref(), Some("r1"));
        assert_eq!(long.endpoint.as_deref(), Some("https://own:1"));
        assert_eq!(prod.elsewhere(), None);
        let role = "[role]\nrole_arn = arn:r\nsource_profile = prod\naws_access_key_id = A\n\
                    aws_secret_access_key = S\n[sso]\nsso_session = own\n";
        let of_role = AwsProfile::parse(role, "role").unwrap();
        let told = AwsProfile::no_keys(Path::new("f"), "role", &[&prod, &of_role]);
        assert!(told.contains("\"role\"") && told.contains("the role arn:r"), "{told}");
        let of_sso = AwsProfile::parse(role, "sso").unwrap();
        assert!(of_sso.elsewhere().unwrap().contains("sso_session"));
        let shown = format!("{prod:?}");
        assert!(!shown.contains('X') && !shown.contains('T'), "{shown}");
    }
}
