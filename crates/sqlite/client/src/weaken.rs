//! Python modules as plain libraries.

use std::io;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader64, STB_WEAK};
use object::read::elf::{FileHeader, SectionHeader, Sym};

/// Makes undefined symbols that begin with `prefix` weak, so that a Python module's library can be
/// loaded without an interpreter: the loader then sets them to null instead of refusing. SQLite's
/// own functions in it do not use them.
///
/// # Errors
/// Fails when the file cannot be read or written, or is not a 64-bit ELF library.
pub fn weaken_undefined(path: &Path, prefix: &str) -> io::Result<()> {
    let mut bytes = std::fs::read(path)?;
    let places = undefined_symbols(&bytes, prefix).map_err(io::Error::other)?;
    for place in places {
        if let Some(info) = bytes.get_mut(place) {
            *info = (STB_WEAK.0 << 4) | (*info & 0xf);
        }
    }
    std::fs::write(path, bytes)
}

/// Returns the file offsets of the type-and-binding bytes of undefined dynamic symbols whose name
/// begins with `prefix`, ignoring leading underscores. ELF gABI, "Symbol Table": the byte follows
/// the 4-byte name in each 64-bit entry.
fn undefined_symbols(bytes: &[u8], prefix: &str) -> object::read::Result<Vec<usize>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM)?;
    let section = sections.section(symbols.section())?;
    let start = usize::try_from(section.sh_offset(endian)).unwrap_or(usize::MAX);
    let mut places = Vec::new();
    for (index, symbol) in symbols.symbols().iter().enumerate() {
        let name = symbols.symbol_name(endian, symbol)?;
        let name = String::from_utf8_lossy(name);
        if symbol.is_undefined(endian) && name.trim_start_matches('_').starts_with(prefix) {
            let entry = index * size_of_val(symbol);
            places.push(start.saturating_add(entry).saturating_add(4));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that refers to data of a missing interpreter loads only after its symbols were
    /// weakened.
    #[test]
    fn weakened_libraries_load_without_their_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("module.c");
        let library = directory.path().join("module.so");
        std::fs::write(
            &source,
            "extern int _Py_Missing; extern int Other_kept;\n\
             int *missing(void) { return &_Py_Missing; } int seven(void) { return 7; }",
        )
        .unwrap();
        let mut compiler = std::process::Command::new("cc");
        let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(built.unwrap().success());
        let flags = libloading::os::unix::RTLD_LAZY | libloading::os::unix::RTLD_LOCAL;
        // SAFETY: the library was compiled above and has no constructors.
        let load = || unsafe { libloading::os::unix::Library::open(Some(&library), flags) };
        assert!(load().is_err());
        weaken_undefined(&library, "Py").unwrap();
        assert!(load().is_ok());
        std::fs::write(&library, b"no elf").unwrap();
        assert!(weaken_undefined(&library, "Py").is_err());
    }
}
