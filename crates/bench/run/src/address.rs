//! Addresses of servers: `SCHEME://USER[:PASSWORD]@HOST[:PORT][/DATABASE]`.

use std::fmt;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::error::{BenchError, Result};

pub(crate) type Password = Zeroizing<String>;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Mysql,
    Mssql,
}

impl Protocol {
    /// Returns its schemes, the first of which is displayed; the default port; the last part of an
    /// address.
    fn facts(self) -> (&'static [&'static str], u16, &'static str) {
        match self {
            Self::Mysql => (&["mysql://", "mariadb://"], 3306, "/DATABASE"),
            Self::Mssql => (&["mssql://"], 1433, "[/DATABASE]"),
        }
    }

    fn scheme(self) -> &'static str {
        self.facts().0[0]
    }
}

/// The address of a server, with the user name.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    pub(crate) protocol: Protocol,
    pub(crate) user: String,
    pub(crate) password: Option<Password>,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Empty for the login's default; a MySQL server has none.
    pub(crate) database: String,
}

/// Without the password.
impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        let (scheme, host) = (self.protocol.scheme(), &self.host);
        write!(formatter, "{scheme}{}@{open}{host}{close}:{}", self.user, self.port)?;
        if self.database.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.database) }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::str::FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (protocol, rest) = [Protocol::Mysql, Protocol::Mssql]
            .into_iter()
            .find_map(|protocol| {
                let mut schemes = protocol.facts().0.iter();
                Some((protocol, schemes.find_map(|scheme| text.strip_prefix(scheme))?))
            })
            .ok_or("expected mysql:// or mssql://")?;
        let (_, usual_port, database) = protocol.facts();
        let wrong =
            || format!("expected {}USER[:PASSWORD]@HOST[:PORT]{database}", protocol.scheme());
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
            None => address.split_once(':').map_or((address, Some("")), |(h, p)| (h, Some(p))),
        };
        let port = match port.ok_or_else(wrong)? {
            "" => usual_port,
            digits => digits.parse().map_err(|_| wrong())?,
        };
        let (user, database) = (decode(user)?, decode(database)?);
        // A MySQL server's database appears in statements and in an option file, its name in lists.
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
        let named = !database.is_empty()
            && database.chars().all(plain)
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-:%".contains(c));
        if user.is_empty()
            || host.is_empty()
            || host.chars().any(char::is_control)
            || (protocol == Protocol::Mysql && !named)
        {
            return Err(wrong());
        }
        Ok(Self { protocol, user, password, host: host.to_owned(), port, database })
    }
}

impl ServerUrl {
    /// Sets a password from another source than the address, or none.
    pub(crate) fn set_password(&mut self, password: Option<Password>) -> Result<()> {
        // It becomes a line of option files.
        if password.as_ref().is_some_and(|password| password.chars().any(char::is_control)) {
            let reason = "the password holds a control character";
            return Err(BenchError::option("--login-password-file", reason));
        }
        self.password = password;
        Ok(())
    }

    /// Returns true if connections to it stay on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

/// Returns a word of the command line without its password, for reports.
pub(crate) fn without_password(word: String) -> String {
    let (option, address) = match word.split_once("=m") {
        Some((option, _)) => word.split_at(option.len() + 1),
        None => ("", word.as_str()),
    };
    match address.parse::<ServerUrl>() {
        Ok(url) => format!("{option}{url}"),
        Err(_) => word,
    }
}

/// Undoes percent-encoding (RFC 3986, 2.1). The text must not contain control characters: it goes
/// into option files and messages.
pub(crate) fn decode(text: &str) -> Result<String, String> {
    let digits = |part: &str| {
        part.get(..2).is_some_and(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    // The library leaves a `%` without digits unchanged.
    if !text.split('%').skip(1).all(digits) {
        return Err("a `%` needs two hexadecimal digits behind it".to_owned());
    }
    let text = percent_decode_str(text).decode_utf8().map_err(|_| "not UTF-8".to_owned())?;
    let control = text.chars().any(char::is_control);
    if control { Err("holds a control character".to_owned()) } else { Ok(text.into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_show_the_password() {
        for (text, (host, port), password, shown) in [
            (
                "mysql://me:p%40ss:x@db.example:3307/shop",
                ("db.example", 3307),
                Some("p@ss:x"),
                "mysql://me@db.example:3307/shop",
            ),
            ("mariadb://me@127.0.0.1/d", ("127.0.0.1", 3306), None, "mysql://me@127.0.0.1:3306/d"),
            ("mssql://sa@localhost", ("localhost", 1433), None, "mssql://sa@localhost:1433"),
            (
                "mssql://a%40b:p%3Ass@db.example:1500/shop",
                ("db.example", 1500),
                Some("p:ss"),
                "mssql://a@b@db.example:1500/shop",
            ),
            ("mssql://sa@[::1]:1434", ("::1", 1434), None, "mssql://sa@[::1]:1434"),
        ] {
            let found: ServerUrl = text.parse().unwrap();
            assert_eq!((found.host.as_str(), found.port), (host, port));
            assert_eq!(found.password.as_ref().map(|found| found.as_str()), password);
            assert_eq!((found.to_string().as_str(), format!("{found:?}").as_str()), (shown, shown));
        }
        let mut found: ServerUrl = "mysql://me:one@h/d".parse().unwrap();
        let word = |text: &str| Some(Zeroizing::new(text.to_owned()));
        assert!(found.set_password(word("a\nb=c")).is_err());
        found.set_password(word("other")).unwrap();
        assert_eq!(found.password.as_ref().map(|found| found.as_str()), Some("other"));
    }

    #[test]
    fn a_reports_command_line_holds_no_password() {
        for (word, shown) in [
            ("mysql://me:secret@h/d", "mysql://me@h:3306/d"),
            ("--target=mysql://me:secret@h:1/d", "--target=mysql://me@h:1/d"),
            ("mssql://sa:secret@h", "mssql://sa@h:1433"),
            ("--target=mssql://sa:secret@h:2/d", "--target=mssql://sa@h:2/d"),
            ("--experiment=oltp", "--experiment=oltp"),
            ("--server-option=x=my", "--server-option=x=my"),
        ] {
            assert_eq!(without_password(word.to_owned()), shown);
        }
    }

    #[test]
    fn loopback_is_known() {
        let near = |host: &str| format!("mysql://me@{host}/d").parse::<ServerUrl>().unwrap();
        for host in ["localhost", "127.0.0.1", "127.3.0.1", "[::1]"] {
            assert!(near(host).is_loopback(), "{host}");
        }
        for host in ["db.example", "localhost.example", "128.0.0.1", "[::2]"] {
            assert!(!near(host).is_loopback(), "{host}");
        }
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
            "mysql://me@host;x=1/db",
            "mysql://me@a,b/db",
            "mysql://me:%0a@host/db",
            "postgres://me@host/db",
            "mssql://localhost",
            "mssql://@localhost",
            "mssql://sa@",
            "mssql://sa@host:x",
            "mssql://sa@[::1",
            "mssql://sa@[::1]x",
            "mssql://sa:%0a@host",
        ] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }
}
