"""The type stubs say what is there. (That the tests and examples keep to them is checked by mypy itself.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_stubs_describe_the_package(tmp_path: Path) -> None:
    allowed = Path(__file__).with_name("stubtest.allowlist")
    # From a folder where the package can only be found where it is installed.
    command = [sys.executable, "-m", "mypy.stubtest", "foretell", "--allowlist", str(allowed)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
