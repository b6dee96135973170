"""Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol


class Program(Protocol):
    """Runs one: its arguments, and what its environment is to have."""

    def __call__(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]: ...


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """See Program."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
