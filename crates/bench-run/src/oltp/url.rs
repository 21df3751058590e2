//! Addresses of servers: `mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE`.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::BenchError;
use crate::percent::decode;

/// Where a server listens, and as whom to come.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    pub(crate) user: String,
    pub(crate) password: Option<Zeroizing<String>>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: String,
}

/// Without the password.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "mysql://{}@{}:{}/{}", self.user, self.host, self.port, self.database)
    }
}

impl std::str::FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHAPE: &str = "expected mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE";
        let wrong = || SHAPE.to_owned();
        let rest = ["mysql://", "mariadb://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .ok_or_else(wrong)?;
        let (who, place) = rest.rsplit_once('@').ok_or_else(wrong)?;
        let (address, database) = place.split_once('/').ok_or_else(wrong)?;
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(Zeroizing::new(decode(password)?))),
            None => (who, None),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (address, 3306),
        };
        let database = decode(database)?;
        // The name stands in statements and in an option file.
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
        let named = !database.is_empty() && database.chars().all(plain);
        let user = decode(user)?;
        if user.is_empty() || host.is_empty() || !named || has_control(&[&user, host]) {
            return Err(wrong());
        }
        Ok(Self { user, password, host: host.to_owned(), port, database })
    }
}

impl ServerUrl {
    /// Takes a password from outside of the address.
    pub(super) fn set_password(&mut self, password: Zeroizing<String>) -> Result<(), BenchError> {
        // It becomes a line of option files.
        if has_control(&[password.as_str()]) {
            return Err(BenchError::Option {
                option: "--login-password-file",
                reason: "the password holds a control character".to_owned(),
            });
        }
        self.password = Some(password);
        Ok(())
    }
}

/// A word of the command line as a report may show it.
pub(crate) fn without_password(word: String) -> String {
    let (option, address) = match word.split_once("=m") {
        Some((option, _)) => word.split_at(option.len() + 1),
        None => ("", word.as_str()),
    };
    if let Ok(url) = address.parse::<ServerUrl>() {
        return format!("{option}{url:?}");
    }
    match address.parse::<crate::messages::MssqlUrl>() {
        Ok(url) => format!("{option}{url}"),
        Err(_) => word,
    }
}

fn has_control(words: &[&str]) -> bool {
    words.iter().any(|word| word.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_show_the_password() {
        let found: ServerUrl = "mysql://me:p%40ss:x@db.example:3307/shop".parse().unwrap();
        assert_eq!(found.password.as_ref().map(|found| found.as_str()), Some("p@ss:x"));
        assert_eq!((found.host.as_str(), found.port), ("db.example", 3307));
        assert_eq!(format!("{found:?}"), "mysql://me@db.example:3307/shop");
        let found: ServerUrl = "mysql://me@127.0.0.1/d".parse().unwrap();
        assert_eq!((&found.password, found.port), (&None, 3306));
        let mut found = found;
        assert!(found.set_password(Zeroizing::new("a\nb=c".to_owned())).is_err());
        found.set_password(Zeroizing::new("other".to_owned())).unwrap();
        assert_eq!(found.password.as_ref().map(|found| found.as_str()), Some("other"));
    }

    #[test]
    fn a_reports_command_line_holds_no_password() {
        let shown = |word: &str| without_password(word.to_owned());
        assert_eq!(shown("mysql://me:secret@h/d"), "mysql://me@h:3306/d");
        assert_eq!(shown("--target=mysql://me:secret@h:1/d"), "--target=mysql://me@h:1/d");
        assert_eq!(shown("mssql://sa:secret@h"), "mssql://sa@h:1433");
        assert_eq!(shown("--target=mssql://sa:secret@h:2/d"), "--target=mssql://sa@h:2/d");
        assert_eq!(shown("--experiment=oltp"), "--experiment=oltp");
        assert_eq!(shown("--server-option=x=my"), "--server-option=x=my");
    }

    #[test]
    fn bad_addresses_are_refused() {
        for bad in [
            "mysql://host/db",
            "mysql://me@host",
            "mysql://me@host/",
            "mysql://me@host:x/db",
            "mysql://@host/db",
            "mysql://me@host/d`b",
            "mysql://me:%4@host/db",
            "mysql://me:%0a@host/db",
            "postgres://me@host/db",
        ] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }
}
