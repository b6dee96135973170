"""What of foretell.fs lists many paths, or copies many files: by few requests, or by many at the same time."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK  # type: ignore[import-untyped]
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from foretell._waiting import together

# Listings, or files that are copied, that wait at the same time.
_TOGETHER = 32

_FOLDER = {"size": 0, "type": "directory"}


class _Named:
    """Goes for a file system, and only notes what would be copied where: how paths go together is fsspec's to know."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.files: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        self.files.append((rpath, lpath))


class Listing(AbstractFileSystem):  # type: ignore[misc]
    """A file system that can list a path, and everything below it."""

    @abstractmethod
    def _listed(self, path: str, *, deep: bool) -> list[dict[str, Any]]:
        """What lies directly under a path, or all files below it."""

    @abstractmethod
    def _lists_below(self, path: str) -> bool:
        """Is all that lies below a path listed by a few requests, and are folders what names of files have in common?"""

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **kwargs: Any,
    ) -> Any:
        """All files under a path, by as few requests as their store needs; with a prefix, those that go on with it."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        if maxdepth is None and not withdirs:
            found = {entry["name"]: entry for entry in self._listed(path, deep=True)}
        elif not self._lists_below(path):
            found = super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        else:
            found = self._found(self._strip_protocol(path).rstrip("/"), maxdepth, withdirs)
        if not found and self.isfile(path):
            found = {entry["name"]: entry for entry in [self.info(path)]}
        begin = f"{self._strip_protocol(path).rstrip('/')}/{prefix}"
        names = sorted(name for name in found if not prefix or name.startswith(begin))
        return {name: found[name] for name in names} if detail else names

    def _found(self, base: str, maxdepth: int | None, withdirs: bool) -> dict[str, dict[str, Any]]:
        """What lies below a path of a store, up to some depth, as fsspec finds it by one listing after the other."""
        try:
            found = self._below(base) if maxdepth is None else self._by_levels(base, maxdepth)
        except FileNotFoundError:
            return {}
        if not withdirs:
            return {name: entry for name, entry in found.items() if entry["type"] != "directory"}
        if found and base:
            found[base] = {"name": base, **_FOLDER}
        return found

    def _below(self, base: str) -> dict[str, dict[str, Any]]:
        found = {entry["name"]: entry for entry in self._listed(base, deep=True)}
        # What is empty may be a file, or what marks a folder in which nothing is: the listing of where it lies tells.
        empty = {name.rpartition("/")[0] for name, entry in found.items() if entry["size"] == 0}
        marks = self._folders_of(sorted(empty))
        above = {mark: None for mark in marks}
        for name in found:
            while len(name := name.rpartition("/")[0]) > len(base) and name not in above:
                above[name] = None
        return found | {name: {"name": name, **_FOLDER} for name in above}

    def _folders_of(self, paths: Iterable[str]) -> list[str]:
        entries = [entry for some in self._all_listed(paths) for entry in some]
        return [entry["name"] for entry in entries if entry["type"] == "directory"]

    def _by_levels(self, base: str, maxdepth: int) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        level = [base]
        for depth in range(maxdepth):
            entries = [entry for some in self._all_listed(level, is_known=depth > 0) for entry in some]
            # A folder goes before a file of its name.
            entries.sort(key=lambda entry: entry["type"] == "directory")
            found |= {entry["name"]: entry for entry in entries}
            level = [entry["name"] for entry in entries if entry["type"] == "directory"]
        return found

    def _all_listed(self, paths: Iterable[str], is_known: bool = True) -> list[list[dict[str, Any]]]:
        def listed(path: str) -> list[dict[str, Any]]:
            try:
                return self._listed(path, deep=False)
            except FileNotFoundError:
                # Removed meanwhile.
                if is_known:
                    return []
                raise

        return together(listed, [(path,) for path in paths], _TOGETHER, False)  # type: ignore[return-value]

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copies files to this machine, several at the same time."""
        named = _Named(self)
        AbstractFileSystem.get(named, rpath, lpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(named.files))
        lock = threading.Lock()

        def copied(rpath: str, lpath: Any) -> None:
            with callback.branched(rpath, lpath) as child:
                self.get_file(rpath, lpath, callback=child, **kwargs)
            with lock:
                callback.relative_update(1)

        together(copied, named.files, _TOGETHER, False)
