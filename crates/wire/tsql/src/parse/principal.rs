//! CREATE, ALTER and DROP of logins, users and roles; GRANT, DENY and REVOKE.

use super::Parser;
use crate::ast::principal::{Principals, Securable, Verb};
use crate::ast::{Action, Kind};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Permissions are at most this many words.
const MOST_WORDS: usize = 5;

fn made(principals: Principals) -> Kind {
    Kind::Act(Action::Principals(Box::new(principals)))
}

impl Parser<'_> {
    /// LOGIN, USER or ROLE, and the rest of its CREATE; None for other words.
    pub(crate) fn create_principal(&mut self) -> Result<Option<Kind>> {
        if self.eat("LOGIN") {
            let name = self.identifier()?;
            if self.is("FROM") {
                return Err(Error::unsupported("CREATE LOGIN .. FROM"));
            }
            let password = self.login_password()?;
            return Ok(Some(made(Principals::CreateLogin { name, password })));
        }
        if self.eat("USER") {
            return self.create_user().map(Some);
        }
        if self.eat("ROLE") {
            let name = self.identifier()?;
            self.owned_by_dbo()?;
            return Ok(Some(made(Principals::CreateRole(name))));
        }
        if self.is_words(&["SERVER", "ROLE"]) {
            return Err(Error::unsupported("CREATE SERVER ROLE"));
        }
        Ok(None)
    }

    /// The name of a user or role: PUBLIC is one, though reserved.
    fn principal(&mut self) -> Result<String> {
        match self.eat("PUBLIC") {
            true => Ok("public".to_owned()),
            false => self.identifier(),
        }
    }

    fn owned_by_dbo(&mut self) -> Result<()> {
        if !self.eat("AUTHORIZATION") {
            return Ok(());
        }
        match self.identifier()?.to_lowercase().as_str() {
            "dbo" => Ok(()),
            owner => Err(Error::feature(format!("a role of the owner {owner}"))),
        }
    }

    /// `WITH PASSWORD = '..'`, with options that this server always has.
    fn login_password(&mut self) -> Result<String> {
        self.expect_words(&["WITH", "PASSWORD"])?;
        self.expect_op("=")?;
        if !matches!(self.tok(), Tok::Str(..)) {
            return Err(Error::unsupported("PASSWORD of another form than '..'"));
        }
        let password = self.string()?;
        if self.is("OLD_PASSWORD") {
            return Err(Error::unsupported("OLD_PASSWORD"));
        }
        while self.eat_op(",") {
            let option = self.word()?;
            self.expect_op("=")?;
            let value = match option.starts_with("CHECK_") {
                true => self.word()?,
                false => self.identifier()?,
            };
            let fits = match option.as_str() {
                "CHECK_POLICY" | "CHECK_EXPIRATION" => true,
                "DEFAULT_DATABASE" => value.eq_ignore_ascii_case("master"),
                "DEFAULT_LANGUAGE" => value.eq_ignore_ascii_case("us_english"),
                _ => false,
            };
            if !fits {
                return Err(Error::unsupported(format!("{option} = {value} of a login")));
            }
        }
        Ok(password)
    }

    fn create_user(&mut self) -> Result<Kind> {
        let name = self.identifier()?;
        let login = if self.eat("FOR") || self.eat("FROM") {
            if !self.is("LOGIN") {
                return Err(Error::unsupported(format!("CREATE USER .. FOR {}", self.word()?)));
            }
            self.expect("LOGIN")?;
            self.identifier()?
        } else if self.eat("WITHOUT") {
            return Err(Error::unsupported("CREATE USER .. WITHOUT LOGIN"));
        } else {
            name.clone()
        };
        if self.eat("WITH") {
            self.dbo_schema()?;
        }
        Ok(made(Principals::CreateUser { name, login }))
    }

    /// `DEFAULT_SCHEMA = dbo`: names without a schema are those of dbo for everybody.
    fn dbo_schema(&mut self) -> Result<()> {
        if !self.is("DEFAULT_SCHEMA") {
            return Err(Error::unsupported(format!("{} of a user", self.word()?)));
        }
        self.expect("DEFAULT_SCHEMA")?;
        self.expect_op("=")?;
        match self.identifier()?.to_lowercase().as_str() {
            "dbo" => Ok(()),
            schema => Err(Error::feature(format!("the default schema {schema}"))),
        }
    }

    /// LOGIN, USER, ROLE, SERVER ROLE or AUTHORIZATION, and the rest of its ALTER.
    pub(crate) fn alter_principal(&mut self) -> Result<Option<Kind>> {
        if self.eat("LOGIN") {
            let name = self.identifier()?;
            if !self.is_words(&["WITH", "PASSWORD"]) {
                return Err(Error::unsupported("ALTER LOGIN of more than its password"));
            }
            let password = self.login_password()?;
            return Ok(Some(made(Principals::AlterLogin { name, password })));
        }
        if self.eat("USER") {
            return self.alter_user().map(Some);
        }
        if self.eat("ROLE") {
            let role = self.principal()?;
            let (member, add) = self.member("ALTER ROLE")?;
            return Ok(Some(made(Principals::Member { role, member, add })));
        }
        if self.eat_words(&["SERVER", "ROLE"]) {
            let role = self.identifier()?;
            let (member, add) = self.member("ALTER SERVER ROLE")?;
            return Ok(Some(made(Principals::ServerRole { role, member, add })));
        }
        if self.eat("AUTHORIZATION") {
            self.expect("ON")?;
            if !self.eat("DATABASE") {
                return Err(Error::unsupported("ALTER AUTHORIZATION of other than a DATABASE"));
            }
            self.scope()?;
            let database = self.identifier()?;
            self.expect("TO")?;
            let login = self.identifier()?;
            return Ok(Some(made(Principals::Owner { database, login })));
        }
        Ok(None)
    }

    fn member(&mut self, verb: &str) -> Result<(String, bool)> {
        let add = self.eat("ADD");
        if !add && !self.eat("DROP") {
            return Err(Error::unsupported(format!("{verb} of more than its members")));
        }
        self.expect("MEMBER")?;
        Ok((self.identifier()?, add))
    }

    fn alter_user(&mut self) -> Result<Kind> {
        let name = self.identifier()?;
        let (mut login, mut new_name) = (None, None);
        self.expect("WITH")?;
        self.commas(|parser| {
            let place = match () {
                () if parser.is("LOGIN") => &mut login,
                () if parser.is("NAME") => &mut new_name,
                () => return parser.dbo_schema(),
            };
            parser.advance();
            parser.expect_op("=")?;
            *place = Some(parser.identifier()?);
            Ok(())
        })?;
        Ok(made(Principals::AlterUser { name, login, new_name }))
    }

    /// LOGIN, USER or ROLE, and the rest of its DROP.
    pub(crate) fn drop_principal(&mut self) -> Result<Option<Kind>> {
        if self.eat("LOGIN") {
            return Ok(Some(made(Principals::DropLogin(self.identifier()?))));
        }
        let role = self.is("ROLE");
        if !role && !self.is("USER") {
            return Ok(None);
        }
        self.advance();
        let if_exists = self.eat_words(&["IF", "EXISTS"]);
        Ok(Some(made(Principals::Drop { name: self.identifier()?, role, if_exists })))
    }

    /// GRANT, DENY or REVOKE.
    pub(crate) fn permission(&mut self, verb: &str) -> Result<Kind> {
        self.advance();
        let verb = match verb {
            "GRANT" => Verb::Grant,
            "DENY" => Verb::Deny,
            _ => Verb::Revoke,
        };
        if verb == Verb::Revoke && self.is_words(&["GRANT", "OPTION", "FOR"]) {
            return Err(Error::unsupported("GRANT OPTION"));
        }
        let permissions = self.commas(Self::permission_name)?;
        let on = if self.eat("ON") { self.securable()? } else { Securable::Database(None) };
        if !(self.eat("TO") || verb == Verb::Revoke && self.eat("FROM")) {
            return Err(self.unexpected());
        }
        let grantees = self.commas(Self::principal)?;
        if self.is_words(&["WITH", "GRANT", "OPTION"]) {
            return Err(Error::unsupported("WITH GRANT OPTION"));
        }
        if self.is("AS") {
            return Err(Error::unsupported("GRANT .. AS"));
        }
        // nobody has passed on what was granted to them
        let _ = verb != Verb::Grant && self.eat("CASCADE");
        Ok(Kind::Act(Action::Principals(Box::new(Principals::Permit {
            verb,
            permissions,
            on,
            grantees,
        }))))
    }

    fn permission_name(&mut self) -> Result<String> {
        let mut words = Vec::new();
        while !(self.is("ON") || self.is("TO") || self.is("FROM")) && words.len() < MOST_WORDS {
            match self.tok() {
                Tok::Word(word) => words.push(word.to_ascii_uppercase()),
                Tok::Op("(") => {
                    return Err(Error::unsupported("permissions on columns"));
                }
                _ => break,
            }
            self.advance();
        }
        match words.is_empty() {
            true => Err(self.unexpected()),
            false => Ok(words.join(" ")),
        }
    }

    /// `::`
    fn scope(&mut self) -> Result<()> {
        self.expect_op("::")
    }

    pub(super) fn securable(&mut self) -> Result<Securable> {
        let scoped = self.is_op_at(1, "::");
        let class = match self.tok() {
            Tok::Word(word) if scoped => word.to_ascii_uppercase(),
            _ => {
                let name = self.name()?;
                if self.is_op("(") {
                    return Err(Error::unsupported("permissions on columns"));
                }
                return Ok(Securable::Object(name));
            }
        };
        self.advance();
        self.scope()?;
        match class.as_str() {
            "DATABASE" => Ok(Securable::Database(Some(self.identifier()?))),
            "SCHEMA" => Ok(Securable::Schema(self.identifier()?)),
            "OBJECT" => Ok(Securable::Object(self.name()?)),
            "TYPE" => Ok(Securable::Type(self.name()?)),
            _ => Err(Error::unsupported(format!("permissions on {class}::"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Principals> {
        let stmts = crate::parse::parse(text, true).map_err(|at| at.error)?;
        match stmts.into_iter().next().map(|stmt| stmt.kind) {
            Some(Kind::Act(Action::Principals(made))) => Ok(*made),
            other => Err(Error::Internal { detail: format!("{other:?}") }),
        }
    }

    #[test]
    fn permissions_are_read_with_what_they_are_on() {
        let permit = one("DENY SELECT, VIEW DEFINITION ON SCHEMA::[sales] TO ann, [b c] CASCADE");
        let wanted = Principals::Permit {
            verb: Verb::Deny,
            permissions: vec!["SELECT".to_owned(), "VIEW DEFINITION".to_owned()],
            on: Securable::Schema("sales".to_owned()),
            grantees: vec!["ann".to_owned(), "b c".to_owned()],
        };
        assert_eq!(permit, Ok(wanted));
        for text in [
            "GRANT SELECT ON t (a) TO ann",
            "GRANT SELECT (a) ON t TO ann",
            "GRANT SELECT ON t TO ann WITH GRANT OPTION",
            "GRANT IMPERSONATE ON USER::ann TO bob",
            "CREATE USER u WITHOUT LOGIN",
            "CREATE USER u WITH DEFAULT_SCHEMA = sales",
            "CREATE LOGIN l FROM WINDOWS",
            "ALTER LOGIN l DISABLE",
        ] {
            let found = one(text);
            let refused = matches!(
                found,
                Err(Error::NotSupported { .. } | Error::NotSupportedFeature { .. })
            );
            assert!(refused, "{text}: {found:?}");
        }
    }
}
