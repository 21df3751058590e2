"""Datasette: a plugin loads the extension before Datasette opens its files."""

import json
import os
import subprocess
import sys

import with_pandas

PLUGINS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "datasette_plugins")


def write(path, rows):
    # Datasette only reads.
    with_pandas.write(path, rows)


def read(path):
    query = "/" + os.path.splitext(os.path.basename(path))[0] + "/note.json?_shape=array&_size=max"
    command = [sys.executable, "-m", "datasette", path, "--plugins-dir", PLUGINS, "--get", query]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{run.stdout}\n{run.stderr}")
    return [(row["id"], row["body"]) for row in json.loads(run.stdout)]
