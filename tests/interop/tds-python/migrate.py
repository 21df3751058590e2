"""Python's tools of migration against `tdekit serve`: each runs its first and second one.

usage: migrate.py TOOL PORT on CERTIFICATE OTHER_CERTIFICATE
"""

import importlib
import os
import sys

MODULES = {"django": "django_shop", "alembic": "alembic_shop", "pandas": "pandas_frames"}

if __name__ == "__main__":
    tool, port, mode, certificate, _other = sys.argv[1:]
    module = importlib.import_module(MODULES[tool])
    module.run(port, certificate, os.environ["INTEROP_PASSWORD"], os.environ["INTEROP_MARKER"])
    print(f"{tool} {mode}: ok")
