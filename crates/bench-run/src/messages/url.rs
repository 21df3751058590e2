//! Addresses of servers: `mssql://USER[:PASSWORD]@HOST[:PORT][/DATABASE]`.

use std::fmt;

use zeroize::Zeroizing;

use crate::percent::decode;

const SHAPE: &str = "expected mssql://USER[:PASSWORD]@HOST[:PORT][/DATABASE]";
const USUAL_PORT: u16 = 1433;

/// Where a server listens, and as whom to come.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MssqlUrl {
    pub(super) user: String,
    pub(super) password: Option<Zeroizing<String>>,
    pub(super) host: String,
    pub(super) port: u16,
    /// Empty for the login's own.
    pub(super) database: String,
}

/// Without the password.
impl fmt::Display for MssqlUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        write!(formatter, "mssql://{}@{open}{}{close}:{}", self.user, self.host, self.port)?;
        if self.database.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.database) }
    }
}

impl fmt::Debug for MssqlUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::str::FromStr for MssqlUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || SHAPE.to_owned();
        let rest = text.strip_prefix("mssql://").ok_or_else(wrong)?;
        let (who, place) = rest.rsplit_once('@').ok_or_else(wrong)?;
        let (address, database) = place.split_once('/').unwrap_or((place, ""));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(Zeroizing::new(decode(password)?))),
            None => (who, None),
        };
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or_else(wrong)?;
                (host, behind.strip_prefix(':').or(behind.is_empty().then_some("")))
            }
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, Some("")),
            },
        };
        let port = match port.ok_or_else(wrong)? {
            "" => USUAL_PORT,
            digits => digits.parse().map_err(|_| wrong())?,
        };
        let (user, database) = (decode(user)?, decode(database)?);
        if user.is_empty() || host.is_empty() || host.chars().any(char::is_control) {
            return Err(wrong());
        }
        Ok(Self { user, password, host: host.to_owned(), port, database })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_show_the_password() {
        let found: MssqlUrl = "mssql://sa@localhost".parse().unwrap();
        assert_eq!((found.host.as_str(), found.port, found.password), ("localhost", 1433, None));
        let found: MssqlUrl = "mssql://a%40b:p%3Ass@db.example:1500/shop".parse().unwrap();
        assert_eq!(found.password.as_ref().unwrap().as_str(), "p:ss");
        assert_eq!(format!("{found:?}"), "mssql://a@b@db.example:1500/shop");
        let found: MssqlUrl = "mssql://sa@[::1]:1434".parse().unwrap();
        assert_eq!((found.host.as_str(), found.port), ("::1", 1434));
        assert_eq!(found.to_string(), "mssql://sa@[::1]:1434");
    }

    #[test]
    fn bad_addresses_are_refused() {
        for bad in [
            "mssql://localhost",
            "mssql://@localhost",
            "mssql://sa@",
            "mssql://sa@host:x",
            "mssql://sa@[::1",
            "mssql://sa@[::1]x",
            "mssql://sa:%0a@host",
            "mssql://sa:%4@host",
            "mysql://sa@host",
        ] {
            assert!(bad.parse::<MssqlUrl>().is_err(), "{bad}");
        }
    }
}
