//! The server's logins, as T-SQL knows them.

use tdekit_wire_endpoint::{EndpointError, LoginFacts, LoginFile, Logins};
use tdekit_wire_tds::messages::PermissionError;
use tdekit_wire_tsql::{Error, Login};

use super::fault;

/// Returns every login.
pub(crate) fn all(file: &LoginFile) -> Result<Vec<Login>, Error> {
    let logins = file.current().map_err(of_endpoint)?;
    logins.facts().into_iter().map(login).collect()
}

/// Returns the login of this name, ignoring case.
pub(crate) fn named(file: &LoginFile, name: &str) -> Result<Option<Login>, Error> {
    file.current().map_err(of_endpoint)?.named(name).map(login).transpose()
}

/// Changes the list.
pub(crate) fn change(
    file: &LoginFile,
    change: impl FnOnce(&mut Logins) -> Result<(), EndpointError>,
) -> Result<(), Error> {
    file.change(change).map_err(of_endpoint)
}

/// DROP LOGIN.
pub(crate) fn remove(file: &LoginFile, name: &str) -> Result<(), Error> {
    of_change("drop", file.change(|list| list.remove(name)))
}

/// ALTER LOGIN.
pub(crate) fn set_password(file: &LoginFile, name: &str, password: &str) -> Result<(), Error> {
    of_change("alter", file.change(|list| list.set_password(name, password)))
}

fn of_change(verb: &'static str, changed: Result<(), EndpointError>) -> Result<(), Error> {
    changed.map_err(|failure| match failure {
        EndpointError::NoLogin { name } => {
            PermissionError::CannotChange { verb, kind: "login", name }.into()
        }
        other => of_endpoint(other),
    })
}

/// An identifier that nobody can read would belong to nobody, or to everybody.
fn login(LoginFacts { name, sid, sysadmin }: LoginFacts) -> Result<Login, Error> {
    match hex::decode(&sid) {
        Ok(sid) if !sid.is_empty() => Ok(Login { name, sid, sysadmin }),
        _ => Err(fault::own(format!("The login '{name}' has no readable identifier."))),
    }
}

fn of_endpoint(failure: EndpointError) -> Error {
    let error = match failure {
        EndpointError::NoLogin { name } => PermissionError::NoLogin { name },
        EndpointError::LoginExists { name } => PermissionError::LoginExists { name },
        EndpointError::LastSysadmin { .. } => PermissionError::LastSysadmin {},
        EndpointError::Login { reason, .. } => {
            PermissionError::BadLogin { reason: reason.to_owned() }
        }
        other => return fault::own(other.to_string()),
    };
    error.into()
}

/// Writes a list with the login `sa`, whose password nobody knows.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn of_sa(data: &std::path::Path) -> std::path::PathBuf {
    let path = data.with_file_name("logins.json");
    let params = tdekit_key_store::PasswordParams::default().to_bytes();
    let (salt, verifier) = ([1; 16], [0; 32]);
    let entry =
        format!(r#"{{"name":"sa","params":{params:?},"salt":{salt:?},"verifier":{verifier:?}}}"#);
    std::fs::write(&path, format!(r#"{{"version":1,"logins":[{entry}]}}"#)).unwrap();
    path
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn errors_are_those_of_sql_server() {
        let dir = tempfile::tempdir().unwrap();
        let file = LoginFile::new(dir.path().join("logins.json"));
        let number = |result: Result<(), Error>| result.unwrap_err().code().0;
        change(&file, |list| list.add("sa", "correct horse", true)).unwrap();
        change(&file, |list| list.add("ann", "correct horse", false)).unwrap();
        let ann = named(&file, "ANN").unwrap().unwrap();
        assert!(!ann.sysadmin && ann.sid.len() == 16);
        assert_eq!(all(&file).unwrap().len(), 2);
        assert_eq!(number(change(&file, |list| list.add("SA", "correct horse", false))), 15025);
        assert_eq!(number(set_password(&file, "bob", "correct horse")), 15151);
        assert_eq!(number(change(&file, |list| list.add("bob", "short", false))), 15116);
        assert_eq!(number(remove(&file, "bob")), 15151);
        assert_eq!(number(change(&file, |list| list.remove("sa"))), 15150);
        assert_eq!(number(change(&file, |list| list.set_sysadmin("sa", false))), 15150);
        change(&file, |list| list.remove("ann")).unwrap();
        assert_eq!(named(&file, "ann").unwrap(), None);
    }
}
