"""Opens databases that tdekit encrypted, with the stock ``sqlite3`` module.

``import tdekit; tdekit.load()`` once, before the first encrypted database is opened. Every
later ``sqlite3.connect()`` of the process opens plain and encrypted databases alike, and
``tdekit.connect()`` opens one by a password that no environment names.
"""

import contextlib
import ctypes
import os
import sqlite3
import subprocess

_SQLITE_OK = 0
# The process that loaded the extension; a fork of it loads it once more.
_loaded_in = None


def extension_path():
    """The extension's path: ``TDEKIT_EXTENSION``, or what ``tdekit sqlite path`` prints."""
    path = os.environ.get("TDEKIT_EXTENSION")
    if path:
        return path
    return subprocess.run(
        ["tdekit", "sqlite", "path"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def load(path=None):
    """Registers tdekit in this process and returns the way it was loaded.

    ``"module"``: by ``Connection.load_extension``. ``"ctypes"``: by SQLite's C interface, for
    a Python that was built without ``enable_load_extension`` (pyenv's default). One time is
    enough either way: a VFS belongs to the process, not to a connection.
    """
    global _loaded_in
    path = path or extension_path()
    by_module = hasattr(sqlite3.Connection, "enable_load_extension")
    (load_by_module if by_module else load_by_ctypes)(path)
    _loaded_in = os.getpid()
    return "module" if by_module else "ctypes"


def connect(database, *args, password=None, password_file=None, **kwargs):
    """``sqlite3.connect()``, by a password of its own, or by one in a file.

    Calls ``load()`` unless this process did. Raises ``sqlite3.OperationalError`` with the
    reason, such as a wrong password. Without a password the environment opens the key store, as
    for ``sqlite3.connect()``.
    """
    if _loaded_in != os.getpid():
        load()
    with _given(database, password, password_file):
        return sqlite3.connect(database, *args, **kwargs)


@contextlib.contextmanager
def _given(database, password, password_file):
    """Has the key store of ``database`` opened by the secret, for connections made within."""
    if password is not None and password_file is not None:
        raise ValueError("tdekit: one of password and password_file, not both")
    if password is None and password_file is None:
        yield
        return
    secret = ("password", password)
    if password_file is not None:
        secret = ("password_file", os.fsencode(password_file))
    # What this connection holds lasts until it closes.
    with contextlib.closing(sqlite3.connect(":memory:")) as holder:
        name = os.fsencode(database)
        holder.execute("SELECT tdekit_unlock(?, ?, ?)", (name, *secret))
        yield


def load_by_module(path):
    """Loads the extension on a connection of the ``sqlite3`` module."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(path)
    finally:
        connection.close()


def load_by_ctypes(path):
    """Loads the extension in the SQLite library that the ``sqlite3`` module is linked with."""
    library = _sqlite_library()
    connection = ctypes.c_void_p()
    message = ctypes.c_char_p()
    try:
        if library.sqlite3_open(b":memory:", ctypes.byref(connection)) != _SQLITE_OK:
            raise sqlite3.OperationalError("tdekit: cannot open a connection to load with")
        if library.sqlite3_enable_load_extension(connection, 1) != _SQLITE_OK:
            raise sqlite3.OperationalError("tdekit: this SQLite does not load extensions")
        code = library.sqlite3_load_extension(
            connection, os.fsencode(path), None, ctypes.byref(message)
        )
        if code != _SQLITE_OK:
            reason = (message.value or b"no message").decode(errors="replace")
            library.sqlite3_free(message)
            raise sqlite3.OperationalError(f"tdekit: {reason}")
    finally:
        library.sqlite3_close(connection)


def _sqlite_library():
    """SQLite's C functions, found through the module that uses them.

    A look-up in the module's own handle also searches the libraries it depends on, so this is
    the very library that ``sqlite3`` calls and not another copy on the machine.
    """
    import _sqlite3

    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    try:
        library.sqlite3_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        library.sqlite3_close.argtypes = [ctypes.c_void_p]
        library.sqlite3_enable_load_extension.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.sqlite3_load_extension.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_char_p),
        ]
        library.sqlite3_free.argtypes = [ctypes.c_void_p]
    except AttributeError as error:
        raise sqlite3.NotSupportedError(
            "tdekit: this Python hides its SQLite library or built it without extensions"
        ) from error
    return library
