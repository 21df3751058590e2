"""Builds the wheels: ``wheel.py VERSION TAG BUILT LOADER OUT``.

VERSION is the version of all, TAG the platform (such as ``manylinux_2_34_x86_64``), BUILT the
directory of the shipped programs, LOADER the module that loads the extension, OUT where the wheels
go. The same input gives the same bytes (PEP 427; PyPA's binary distribution format).
"""

import base64
import hashlib
import pathlib
import stat
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LICENSES = sorted(HERE.parent.parent.glob("LICENSE-*"))
# The earliest time in a ZIP file: the bytes do not depend on the build's time.
EPOCH = (1980, 1, 1, 0, 0, 0)
# Programs that the command starts, each in a separate wheel: `pip install tdekit[serve]`.
PROGRAMS = ["bench", "serve"]
SUMMARY = {
    "tdekit": "Encryption of SQLite databases at rest, in backups and on the wire",
    "tdekit-serve": "Serves databases to clients of SQL Server: `tdekit serve`",
    "tdekit-bench": "Prices encryption on your own database: `tdekit bench`",
    "tdekit-autoload": "Has every program of this Python open databases that tdekit encrypted",
}


def main(version, tag, built, loader, out):
    built, out = pathlib.Path(built), pathlib.Path(out)
    files = [
        ("tdekit/__init__.py", HERE / "tdekit/__init__.py", False),
        ("tdekit/_load.py", pathlib.Path(loader), False),
        # The command looks for its extension in `../lib/tdekit` beside its own directory.
        (f"tdekit-{version}.data/data/lib/tdekit/libtdekit_sqlite.so",
         built / "libtdekit_sqlite.so", True),
        (f"tdekit-{version}.data/scripts/tdekit", built / "tdekit", True),
    ]
    same = [f"tdekit=={version}"]
    wheel(out, "tdekit", version, f"py3-none-{tag}", files, [], extras=PROGRAMS)
    for program in PROGRAMS:
        name = f"tdekit-{program}"
        script = f"tdekit_{program}-{version}.data/scripts/{name}"
        wheel(out, name, version, f"py3-none-{tag}", [(script, built / name, True)], same)
    pth = HERE / "tdekit_autoload/tdekit_autoload.pth"
    files = [("tdekit_autoload.pth", pth, False)]
    wheel(out, "tdekit-autoload", version, "py3-none-any", files, same)


def wheel(out, name, version, tag, files, requires, extras=()):
    """Writes one wheel. ``files``: name in the archive, source, and whether it is a program."""
    base = f"{name.replace('-', '_')}-{version}"
    info = f"{base}.dist-info"
    pure = "true" if tag.endswith("-any") else "false"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}",
                f"Summary: {SUMMARY[name]}", "License: Apache-2.0 OR MIT", "Requires-Python: >=3.8"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra in extras:
        metadata += [f"Provides-Extra: {extra}",
                     f"Requires-Dist: tdekit-{extra}=={version}; extra == '{extra}'"]
    kind = ["Wheel-Version: 1.0", "Generator: tdekit", f"Root-Is-Purelib: {pure}", f"Tag: {tag}"]
    parts = [(name_in, source.read_bytes(), program) for name_in, source, program in files]
    for license_file in LICENSES:
        parts.append((f"{info}/licenses/{license_file.name}", license_file.read_bytes(), False))
    parts.append((f"{info}/METADATA", lines(metadata), False))
    parts.append((f"{info}/WHEEL", lines(kind), False))
    record = [f"{name_in},sha256={digest(content)},{len(content)}"
              for name_in, content, _ in parts]
    record.append(f"{info}/RECORD,,")
    parts.append((f"{info}/RECORD", lines(record), False))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{base}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name_in, content, program in parts:
            entry = zipfile.ZipInfo(name_in, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | (0o755 if program else 0o644)) << 16
            archive.writestr(entry, content)
    print(path)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def lines(text):
    return ("\n".join(text) + "\n").encode()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
