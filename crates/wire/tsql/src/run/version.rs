//! `xp_msver`: the server's product and version, as requested by tools.

use tdekit_wire_tds::{Length, SqlType, Value, product};

use crate::host::Rows;
use crate::run::called::Given;

/// Returns the rows of `xp_msver`, all or those of the given names. Values that this server does
/// not know are NULL.
pub(crate) fn msver(given: &[Given]) -> Rows {
    let wanted: Vec<&str> = given
        .iter()
        .filter_map(|arg| match &arg.value {
            Some(Value::Text(name)) => Some(name.trim_end()),
            _ => None,
        })
        .collect();
    let text = SqlType::NVarChar(Length::Of(1000));
    let rows = (1..).zip(facts()).filter(|(_, (name, ..))| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    });
    let rows = rows.map(|(index, (name, number, text))| {
        let number = number.map_or(Value::Null, Value::Int);
        let text = text.map_or(Value::Null, |text| Value::Text(text.into()));
        vec![Value::Int(index), Value::Text(name.into()), number, text]
    });
    Rows {
        columns: vec![
            ("Index".to_owned(), SqlType::SmallInt),
            ("Name".to_owned(), text),
            ("Internal_Value".to_owned(), SqlType::Int),
            ("Character_Value".to_owned(), text),
        ],
        rows: rows.collect(),
    }
}

/// Returns name, number and text of each fact, in the order of the documentation.
fn facts() -> Vec<(&'static str, Option<i64>, Option<String>)> {
    let version = i64::from(product::MAJOR) << 16 | i64::from(product::MINOR);
    let own = |text: &str| Some(text.to_owned());
    let processors = std::thread::available_parallelism().ok();
    let processors = processors.and_then(|count| i64::try_from(count.get()).ok());
    vec![
        ("ProductName", None, own(product::NAME)),
        ("ProductVersion", Some(version), own(product::VERSION)),
        ("Language", Some(1033), own("English (United States)")),
        ("Platform", None, own("NT x64")),
        ("Comments", None, own("SQL")),
        ("CompanyName", None, None),
        ("FileDescription", None, None),
        ("FileVersion", None, own(product::VERSION)),
        ("InternalName", None, None),
        ("LegalCopyright", None, None),
        ("LegalTrademarks", None, None),
        ("OriginalFilename", None, None),
        ("PrivateBuild", None, None),
        ("SpecialBuild", None, None),
        ("WindowsVersion", None, None),
        ("ProcessorCount", processors, processors.map(|count| count.to_string())),
        ("ProcessorActiveMask", None, None),
        ("ProcessorType", None, None),
        ("PhysicalMemory", None, None),
        ("Product ID", None, None),
    ]
}
