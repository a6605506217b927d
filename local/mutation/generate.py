"""Make the mutants of the project in the working directory, without running a test: mutmut has no command for it.

What has not changed since the last time is left as it is, with the results of its mutants.
"""

import os
from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

if __name__ == "__main__":
    Path("mutants").mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(os.cpu_count() or 1)
