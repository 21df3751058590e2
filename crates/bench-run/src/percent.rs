//! Percent-encoding in the addresses of servers (RFC 3986, 2.1).

/// Undoes it. The text may hold no control character: it goes into option files and messages.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn decode(text: &str) -> Result<String, String> {
    let wrong = || "a `%` needs two hexadecimal digits behind it".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    let control = text.chars().any(char::is_control);
    if control { Err("holds a control character".to_owned()) } else { Ok(text) }
}
