"""Opens SQLite databases that tdekit encrypted, with the stock ``sqlite3`` module.

``tdekit.load()`` once, before the first encrypted database is opened; every later
``sqlite3.connect()`` of the process opens plain and encrypted databases alike. The key store is
found and opened as the command ``tdekit`` does, by ``TDEKIT_*`` variables or its ``config.toml``;
``tdekit.connect(database, password=...)`` opens it by a password of its own.
"""

import importlib.metadata
import os

from tdekit import _load

__all__ = ["connect", "load", "loadable_path"]
__version__ = importlib.metadata.version("tdekit")

_EXTENSION = "libtdekit_sqlite.so"
_loaded_in = None


def loadable_path():
    """The path of the SQLite extension: ``TDEKIT_EXTENSION``, or the installed one.

    Raises ``FileNotFoundError`` where the installation lacks it.
    """
    named = os.environ.get("TDEKIT_EXTENSION")
    if named:
        return named
    for file in importlib.metadata.files("tdekit") or []:
        if file.name == _EXTENSION:
            path = os.path.realpath(file.locate())
            if os.path.isfile(path):
                return path
    raise FileNotFoundError(f"tdekit: the installation has no {_EXTENSION}; install it again")


def load(path=None):
    """Registers tdekit in this process; returns how: ``"module"`` or ``"ctypes"``.

    Any number of calls is fine. Raises ``sqlite3.Error`` where this Python's SQLite cannot load
    extensions at all.
    """
    global _loaded_in
    way = _load.load(path or loadable_path())
    _loaded_in = os.getpid()
    return way


def connect(database, *args, password=None, password_file=None, **kwargs):
    """``sqlite3.connect()``, with tdekit registered before.

    ``password``, or ``password_file``, opens the key store for this connection alone. Raises
    ``sqlite3.OperationalError`` with the reason, such as a wrong password. Without either the
    environment opens the key store.
    """
    if _loaded_in != os.getpid():
        load()
    secret = {"password": password, "password_file": password_file}
    return _load.connect(database, *args, **secret, **kwargs)
