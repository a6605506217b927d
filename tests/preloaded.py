"""Imports what the programs import that tests fork from the process that has imported this (tests/programs.py).

Not the app's functions: they read the settings when they are imported, so each host does that by itself.
"""

import gc
import os
import pkgutil
from importlib import import_module

import shared
import tools.local.host
import worker
from functions.loading import SDKS
from tests.programs import begin_as_new

for module in (
    "tools.admin.cli",
    "tools.local.tethered",
    *SDKS,
    *(
        each.name
        for package in (tools.local.host, shared, worker)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not each.name.endswith(".__main__")
    ),
):
    import_module(module)


os.register_at_fork(after_in_child=begin_as_new)
gc.collect()
gc.freeze()
