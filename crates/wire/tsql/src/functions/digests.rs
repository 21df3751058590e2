//! HASHBYTES. The host has the digests.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::bad_argument;
use crate::error::{Error, Result};
use crate::functions::eval::Env;
use crate::host::Digest;
use crate::plan::func::Func;
use crate::plan::scalar::{Node, Scalar};
use crate::value::{Family, family, is_text};

/// Digests by their names in upper case; those that are broken beyond use have none.
const DIGESTS: [(&str, Option<Digest>); 7] = [
    ("MD2", None),
    ("MD4", None),
    ("MD5", Some(Digest::Md5)),
    ("SHA", Some(Digest::Sha1)),
    ("SHA1", Some(Digest::Sha1)),
    ("SHA2_256", Some(Digest::Sha256)),
    ("SHA2_512", Some(Digest::Sha512)),
];

/// Binds a call: the second argument is digested in the bytes that it has as varbinary.
pub(super) fn bind(name: &str, args: &[Scalar]) -> Result<Scalar> {
    let lob = |ty: SqlType| matches!(ty, SqlType::Text | SqlType::NText | SqlType::Image);
    for (at, arg) in (1..).zip(args) {
        if arg.node == Node::Null(None) {
            let (ty, name) = ("NULL".to_owned(), name.to_lowercase());
            return Err(Error::BadArgument { ty, index: at, name });
        }
        let plain = is_text(arg.ty) || at == 2 && family(arg.ty) == Family::Binary;
        if !plain || lob(arg.ty) {
            return Err(bad_argument(arg.ty, at, name));
        }
    }
    let bytes = Node::Convert { inner: Box::new(args[1].clone()), style: None, lenient: false };
    let bytes = Scalar::new(SqlType::VarBinary(Length::Max), args[1].nullable, bytes);
    let node = Node::Call(Func::HashBytes, vec![args[0].clone(), bytes]);
    Ok(Scalar::new(SqlType::VarBinary(Length::Of(8000)), true, node))
}

/// Takes the name of a digest, and bytes. A name that none has gives NULL.
pub(super) fn compute<'e>(values: &[Value<'_>], env: &Env<'e>) -> Result<Value<'e>> {
    let [Value::Text(name), Value::Binary(bytes)] = values else { return Ok(Value::Null) };
    let name = name.trim_end().to_ascii_uppercase();
    let Some((name, digest)) = DIGESTS.iter().find(|(known, _)| *known == name) else {
        return Ok(Value::Null);
    };
    let (Some(digest), Some(host)) = (digest, env.host) else {
        return Err(Error::feature(format!("HASHBYTES with {name}")));
    };
    host.digest(*digest, bytes).map(|digest| Value::Binary(digest.into()))
}
