"""Proves installed wheels as a user meets them: ``prove.py``, by the environment's own Python.

It begins with nothing but the packages: a home of its own, a key store, a certificate, a database
that is encrypted, opened again, tampered with and refused. It prints a line and exits with 0 or 1.
Where an emulator runs all this, ``PROVE_THROUGH`` is the beginning of its command lines.
"""

import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

MARKER = "a name that no raw file may show"
THROUGH = os.environ.get("PROVE_THROUGH", "").split()
PAGE = 4096


def main():
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        for name in [name for name in os.environ if name.startswith("TDEKIT_")]:
            del os.environ[name]
        os.environ.update(HOME=home, TDEKIT_PASSWORD="only for this proof")
        os.environ.pop("XDG_DATA_HOME", None)
        prove(pathlib.Path(home) / "app.db")
    print("python packages: ok")


def prove(path):
    command = str(pathlib.Path(sys.executable).parent / "tdekit")
    expect(run([command, "--version"]).returncode == 0, "the command runs")
    expect(run([command, "bench", "--help"]).returncode == 0, "the extra `bench` is installed")
    logins = run([command, "serve", "login", "list"])
    expect(logins.returncode == 0, f"the extra `serve` is installed: {logins}")
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
    plain.executemany("INSERT INTO t VALUES(?, ?)", ((i, MARKER) for i in range(500)))
    plain.commit()
    plain.close()
    expect(MARKER.encode() in path.read_bytes(), "the plain file shows the marker")
    for words in (["key", "init"], ["cert", "create", "Proof"],
                  ["encrypt", str(path), "--certificate", "Proof"]):
        done = run([command, *words])
        expect(done.returncode == 0, f"tdekit {' '.join(words)}: {done.stderr}")
    expect(MARKER.encode() not in path.read_bytes(), "the encrypted file shows nothing")
    count = "import {0}; c = {0}.connect('app.db'); print(c.execute('{1}').fetchone()[0])"
    select = "SELECT count(*) FROM t WHERE name LIKE \"a name%\""
    by_package = [sys.executable, "-c", count.format("tdekit", select)]
    expect(run(by_package).stdout == "500\n", f"tdekit.connect: {run(by_package)}")
    # With the autoload package, no program needs a change.
    stock = [sys.executable, "-c", count.format("sqlite3", select)]
    expect(run(stock).stdout == "500\n", f"sqlite3.connect: {run(stock)}")
    # Without site-packages nothing is loaded: shows that the file is encrypted.
    bare = run([sys.executable, "-S", *stock[1:]])
    expect("not a database" in bare.stderr, f"without the extension: {bare}")
    wrong = run(stock, TDEKIT_PASSWORD="another one")
    reason = "authorization denied: tdekit: the database's key did not open: wrong password"
    expect(wrong.returncode != 0 and reason in wrong.stderr, f"wrong key: {wrong}")
    no_key = run(stock, TDEKIT_PASSWORD=None)
    expect(no_key.returncode != 0 and "authorization denied" in no_key.stderr, f"no key: {no_key}")
    prove_secrets(path)
    whole = path.read_bytes()
    pages = range(16384, len(whole), PAGE)
    expect(len(pages) > 3, f"{len(pages)} pages")
    for page in pages:
        path.write_bytes(changed(whole, page + PAGE // 3))
        tampered = run(stock)
        expect(tampered.returncode != 0 and not tampered.stdout, f"byte {page}: {tampered}")
    path.write_bytes(whole)
    expect(run(stock).stdout == "500\n", f"whole again: {run(stock)}")


def prove_secrets(path):
    """A password of the program's own, in a process whose environment has none."""
    right = os.environ["TDEKIT_PASSWORD"]
    file = path.with_name("password")
    file.write_text(right)
    file.chmod(0o600)
    query = "SELECT count(*) FROM t"
    program = (f"import pathlib, sqlite3, tdekit; c = tdekit.connect('app.db', %s); "
               f"print(c.execute('{query}').fetchone()[0])")

    def with_secret(secret, more=""):
        return run([sys.executable, "-c", program % secret + more], TDEKIT_PASSWORD=None)

    for secret in (f"password={right!r}", f"password={right.encode()!r}",
                   "password_file='password'", "password_file=pathlib.Path('password')"):
        opened = with_secret(secret)
        expect(opened.stdout == "500\n", f"{secret}: {opened}")
    # It is for that connection alone.
    another = with_secret(f"password={right!r}", "; sqlite3.connect('app.db')")
    expect(another.stdout == "500\n" and "authorization denied" in another.stderr,
           f"another connection: {another}")
    wrong = with_secret("password='another one'")
    expect("OperationalError: tdekit: wrong password for the key store" in wrong.stderr
           and not wrong.stdout, f"a wrong password: {wrong}")
    both = with_secret("password='x', password_file='y'")
    expect("ValueError" in both.stderr, f"both: {both}")
    file.chmod(0o644)
    readable = with_secret("password_file='password'")
    expect("password has mode 0644: others could read it" in readable.stderr
           and not readable.stdout, f"a password file that others can read: {readable}")
    file.unlink()


def changed(content, offset):
    """The content with one bit of one byte turned over."""
    return content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1:]


def run(command, **variables):
    wanted = {**os.environ, **variables}
    environment = {name: value for name, value in wanted.items() if value is not None}
    return subprocess.run([*THROUGH, *command], env=environment, capture_output=True, text=True,
                          timeout=300)


def expect(holds, what):
    if not holds:
        sys.exit(f"python packages: {what}")


if __name__ == "__main__":
    main()
