"""foretell's pool as a file system of fsspec: what pandas, PyArrow, Zarr and Dask open URLs with.

    import fsspec

    with fsspec.open("foretell::s3://bucket/table.parquet") as file:
        ...
    fs = fsspec.filesystem("foretell", target_protocol="s3", budget_bytes=4 << 30)
    fs.disclose([("bucket/a", 0, None), ("bucket/b", 0, 65536)])  # what will be read, in order
    fs.cat_file("bucket/a")

fs.cat_file and whatever else fsspec has for asyncio is there as well (fs._cat_file, fs.open_async).

Read-only. Options of the file system below that this one understands are passed on ("key", "secret", "token",
"anon", "endpoint_url", and "endpoint_url" and "region_name" among "client_kwargs"); everything else that the stores
know is named in `options`, as the crate object_store names it. File systems of the same options share a pool,
also with child processes: those that are forked, and those that a file system is sent to.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from fsspec.implementations.chained import ChainedFileSystem  # type: ignore[import-untyped]

from foretell._file import ForetellFile
from foretell._listing import Listing
from foretell._types import Policy
from foretell._waiting import Waiting, together
from foretell.pool import ChangedError, DamagedError, Object, Pool, Stamp, Statistics

if TYPE_CHECKING:
    from foretell._peers import Peers

__all__ = ["ForetellFile", "ForetellFileSystem"]

# Protocols of fsspec that are called otherwise in URLs of stores.
_SCHEMES = {"local": "file", "gcs": "gs"}

# Reads of one call that wait at the same time.
_TOGETHER = 32

# What is read first of a file that is opened: its beginning, or its end, where that says what lies where.
_FIRST_BYTES = 64 << 10
_READ_FROM_THE_END = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".orc", ".zip", ".npz")

# Offset and length of what is read first of an object, as foretell.pool.Pool.open_all has them.
_First = tuple[int, int | None]

# Options of s3fs, gcsfs and adlfs, and what object_store calls them.
_NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "token",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "anon": "skip_signature",
    "account_name": "account_name",
    "account_key": "account_key",
    "sas_token": "sas_token",
}

# What fsspec itself may give to any file system.
_FSSPEC = {
    "asynchronous",
    "auto_mkdir",
    "batch_size",
    "dir_cache",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}


def _last_hop(protocol: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the file system below, of a chain that names it more than once.

    Hugging Face's datasets writes the files that a pattern of a chain has matched as "foretell::s3://a/b::s3://a/*".
    """
    options = dict(options)
    while "target_options" in options and options.get("target_protocol") == protocol:
        below = options.pop("target_options") or {}
        del options["target_protocol"]
        options.pop("fo", None)
        options |= below
    return options


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _store_options(given: Mapping[str, Any]) -> dict[str, str]:
    """Options of a file system of fsspec, as the store calls them."""
    options: dict[str, str] = {}
    for name, value in given.items():
        if name == "client_kwargs":
            options |= _store_options(value)
        elif name not in _NAMES:
            raise ValueError(f"target_options: '{name}' is not understood; name it in options as its store does")
        elif value is not None:
            options[_NAMES[name]] = _text(value)
    if options.get("endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    return options


class _Shared:
    """What file systems of the same options share: fsspec makes one for each chained URL."""

    def __init__(self, process: int, pool: Pool, before: _Shared | None) -> None:
        self.process = process
        self.pool = pool
        self.lock = threading.Lock()
        # By URL: paths of different file systems below may look alike.
        self.objects: OrderedDict[str, Object] = OrderedDict()
        # Of another process's pool: what is open or listed there need not be asked for.
        self.known = True
        self.stamps: OrderedDict[str, Stamp] = OrderedDict()
        # What the process that this one was forked from knew. Its lock may be held for ever.
        if before is not None:
            self.stamps = before.stamps.copy()
            self.stamps.update((url, one.stamp) for url, one in list(before.objects.items()))


_shared: WeakValueDictionary[tuple[int, str], _Shared] = WeakValueDictionary()
_shared_lock = threading.Lock()
# By their options, pools of other processes that this one attaches to rather than having one of its own.
_addresses: dict[str, str] = {}


def _before_fork() -> None:
    """Has the children find the pools of this process; without that they have their own."""
    for (process, key), shared in list(_shared.items()):
        if process == os.getpid():
            with suppress(OSError, RuntimeError):
                _addresses[key] = shared.pool.share()


# A child of fork() may have got the lock while somebody held it.
os.register_at_fork(
    before=_before_fork, after_in_child=lambda: globals().update(_shared_lock=threading.Lock())
)


def _unpickled(
    cls: type[ForetellFileSystem], args: tuple[Any, ...], options: dict[str, Any], key: str, address: str
) -> ForetellFileSystem:
    """A file system that another process sent: it reads from that one's pool."""
    _addresses[key] = address
    return cls(*args, **options)


def _first_of(start: int, end: int | None) -> _First:
    """What a slice of an object of which nothing is known begins with."""
    return (start, None) if start < 0 or end is None or end < 0 else (start, max(0, end - start))


def _span(length: int, start: int, end: int | None) -> tuple[int, int]:
    """Offset and length of a slice, as Python's are: negative ones count from the end, and nothing is behind it."""
    first, last, _ = slice(start, end).indices(length)
    return first, max(0, last - first)


class ForetellFileSystem(Listing, Waiting, ChainedFileSystem):  # type: ignore[misc]
    """Files of another file system, through a pool of foretell's.

    target_protocol: the protocol below: "s3", "gs", "az", "http", "https", "file". Without one, paths are URLs.
    target_options: options of the file system below.
    budget_bytes, part_bytes, timeout, requests, policy, disk_dir, disk_bytes, strict: those of the pool; see foretell.pool.Pool.
    options: options of the store, as object_store names them.
    service: read from the pool that a service has for this user ("foretell buffers"), where there is one: True, or the path of
        its socket. Budget and parts are the service's then; credentials go there from here.
    objects: how many paths are held open; beyond, that which was used longest ago is closed, and its memory given back.
    """

    protocol = "foretell"
    root_marker = ""
    # Other machines' pools, where there are some (foretell.dask, foretell.ray).
    _peers: Peers | None = None

    def __init__(
        self,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        fo: str | None = None,
        *,
        budget_bytes: int = 1 << 30,
        part_bytes: int | None = None,
        timeout: float | None = None,
        requests: int | None = None,
        policy: str | None = None,
        disk_dir: str | None = None,
        disk_bytes: int | None = None,
        options: Mapping[str, str] | None = None,
        recorded_references: int | None = None,
        strict: bool = False,
        service: bool | str | os.PathLike[str] = False,
        objects: int = 1 << 17,
        **storage_options: Any,
    ) -> None:
        super().__init__(
            target_protocol=target_protocol, target_options=target_options, fo=fo, **storage_options
        )
        self.target_protocol = target_protocol
        self._pool_options: dict[str, Any] = {
            "budget_bytes": budget_bytes,
            "part_bytes": part_bytes,
            "timeout": timeout,
            "requests": requests,
            "policy": policy,
            "disk_dir": disk_dir,
            "disk_bytes": disk_bytes,
            "options": {
                **_store_options(_last_hop(target_protocol, target_options or {})),
                **{name: _text(value) for name, value in (options or {}).items()},
            },
            "recorded_references": recorded_references,
            "strict": strict,
        }
        if unknown := storage_options.keys() - _FSSPEC:
            raise TypeError(f"{', '.join(sorted(unknown))}: no option of ForetellFileSystem")
        if objects < 1:
            raise ValueError(f"objects: {objects} is not positive")
        self._most_objects = objects
        self._service = service
        self._shared_state = self._share(None)

    @property
    def _key(self) -> str:
        return repr([*sorted(self._pool_options.items(), key=str), str(self._service)])

    def _share(self, before: _Shared | None) -> _Shared:
        key = (os.getpid(), self._key)
        with _shared_lock:
            if (shared := _shared.get(key)) is None or shared.pool.is_lost:
                its = None if self._service else self._attached()
                pool = its or self._of_service() or Pool(**self._pool_options)
                shared = _shared[key] = _Shared(os.getpid(), pool, before)
                # What a service's pool has open may have been opened long ago.
                shared.known = not self._service
            return shared

    def _of_service(self) -> Pool | None:
        """The pool of this user's service, if that is wanted and there."""
        if self._service is not False:
            socket = None if self._service is True else self._service
            options = self._pool_options
            try:
                return Pool.service(socket, timeout=options["timeout"], options=options["options"])
            except ConnectionError as error:
                # That there is none is as it may be. One that cannot be spoken to is there in vain.
                if "speaks version" in str(error):
                    warnings.warn(f"{error}; this process has a pool of its own", RuntimeWarning, stacklevel=2)
        return None

    def _attached(self) -> Pool | None:
        """The pool of the process that this one has the file system from, unless that is gone."""
        if (address := _addresses.get(self._key)) is not None:
            with suppress(ConnectionError):
                return Pool.attach(address, timeout=self._pool_options["timeout"])
            del _addresses[self._key]
        return None

    @property
    def _state(self) -> _Shared:
        if self._shared_state.process != os.getpid() or self._shared_state.pool.is_lost:
            # Forked: neither the lock nor the threads are usable, and the memory is the parent's. Or without a parent.
            self._shared_state = self._share(self._shared_state)
        return self._shared_state

    def __reduce__(self) -> Any:
        try:
            address = self.pool.share()
        except (OSError, RuntimeError):
            return super().__reduce__()
        return _unpickled, (type(self), self.storage_args, self.storage_options, self._key, address)

    @property
    def pool(self) -> Pool:
        """The pool that this process reads from; file systems of the same options share it."""
        return self._state.pool

    def statistics(self) -> Statistics:
        """How the pool fares."""
        return self.pool.statistics()

    # ---- paths and objects ----

    def _url(self, path: str) -> str:
        if "://" in path:
            return path
        if self.target_protocol is None:
            raise ValueError(f"{path}: without target_protocol a URL is needed")
        scheme = _SCHEMES.get(self.target_protocol, self.target_protocol)
        if scheme == "file":
            # fsspec leaves nothing of the root.
            path = os.path.abspath(os.path.expanduser(path)) if path else "/"
        return f"{scheme}://{quote(path)}"

    def _remember(self, kept: OrderedDict[str, Any], url: str, value: Any) -> None:
        """Keeps what belongs to a URL, and not more than `objects` of it. With the lock held."""
        kept[url] = value
        kept.move_to_end(url)
        while len(kept) > self._most_objects:
            kept.popitem(last=False)

    def _objects(self, paths: Iterable[str], first: _First | None = None) -> list[Object]:
        """The open objects of some paths; those that are new are opened together, with what is read first of each."""
        state = self._state
        urls = [self._url(self._strip_protocol(path)) for path in paths]
        found: dict[str, Object] = {}
        new: list[str] = []
        with state.lock:
            for url in dict.fromkeys(urls):
                if (known := state.objects.get(url)) is not None:
                    state.objects.move_to_end(url)
                    found[url] = known
                elif (stamp := state.stamps.get(url)) is not None:
                    found[url] = state.pool.open(url, stamp)
                else:
                    new.append(url)
        # Where other machines may have it, it is not known yet who is asked for it.
        first = first if self._peers is None else None
        found |= zip(new, state.pool.open_all(new, known=state.known, first=first))
        with state.lock:
            for url, one in found.items():
                self._remember(state.objects, url, one)
        return [found[url] for url in urls]

    def opened(self, path: str) -> Object:
        """The open object of a path, in the state that is known of it."""
        return self._objects([path])[0]

    def _read(self, path: str, start: int, end: int | None) -> bytes:
        one = self._objects([path], _first_of(start, end))[0]
        try:
            return self._read_of(path, one, *_span(one.length, start, end))
        except (ChangedError, DamagedError):
            # Whoever opens it again gets the new one.
            self._forget(path)
            raise

    def _read_of(self, path: str, one: Object, offset: int, length: int) -> bytes:
        if self._peers is None:
            return one.read(offset, length)
        return self._peers.read(self._strip_protocol(path), one, offset, length)

    def _read_now(self, path: str, start: int, end: int | None) -> bytes | None:
        state = self._state
        with state.lock:
            one = state.objects.get(self._url(self._strip_protocol(path)))
        return None if one is None else one.read_now(*_span(one.length, start, end))

    def disclose(self, chunks: Iterable[tuple[str, int, int | None]]) -> int:
        """Disclose what will be read, in this order, after all that was disclosed before.

        chunks: (path, offset, length); a length of None means up to the end.

        Returns how many were taken: fewer than were given when too much is disclosed and not read yet, or when they are
        of more paths than are held open.
        """
        given = self._held(chunks)
        objects = self._objects(path for path, _, _ in given)
        return self.pool.disclose(
            (one, offset, max(0, one.length - offset) if length is None else length)
            for one, (_, offset, length) in zip(objects, given)
        )

    def _held(self, chunks: Iterable[tuple[str, int, int | None]]) -> list[tuple[str, int, int | None]]:
        """Those of the first paths, as many as are held open: what is closed is fetched no more."""
        held: list[tuple[str, int, int | None]] = []
        paths: set[str] = set()
        for at, chunk in enumerate(chunks):
            if isinstance(chunk, str) or len(chunk) != 3:
                raise TypeError(f"chunks[{at}]: (path, offset, length) is needed, not {chunk!r}")
            paths.add(chunk[0])
            if len(paths) > self._most_objects:
                break
            held.append(chunk)
        return held

    def set_priority(self, path: str, priority: int) -> None:
        """The priority of an object, 0 unless set, as long as its path is held open: those of lower ones are replaced first."""
        self.opened(path).set_priority(priority)

    def set_policy(self, priority: int, policy: Policy) -> None:
        """Which part of a priority is replaced first: "lru" unless set, or the pool's policy for priority 0."""
        self.pool.set_policy(priority, policy)

    def done_with(self, path: str, offset: int = 0, length: int | None = None) -> None:
        """This range of an object, or all from `offset` on, will not be read again: it is given up at once, but for what is
        disclosed and not read yet."""
        self.opened(path).done_with(offset, length)

    def cancel(self) -> None:
        """Withdraw what was disclosed and not read yet."""
        self.pool.cancel()

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what is known of a path, or of all; what was opened before keeps what it has."""
        self._forget(path)
        self._state.known = False
        super().invalidate_cache(path)

    def _forget(self, path: str | None) -> None:
        state = self._state
        with state.lock:
            for kept in (state.objects, state.stamps):
                if path is None:
                    kept.clear()
                else:
                    kept.pop(self._url(self._strip_protocol(path)), None)

    # ---- what fsspec asks for ----

    def _listed(self, path: str, *, deep: bool) -> list[dict[str, Any]]:
        state = self._state
        base = self._strip_protocol(path).rstrip("/")
        if self._is_above_all(base):
            raise NotImplementedError("buckets are not listed: name one")
        # What the store calls a path begins after its bucket, host or root; what fsspec calls it, with that.
        url = self._url(base)
        listed = state.pool.list(url, deep=deep)
        entries = []
        with state.lock:
            for name, stamp in listed:
                full = self._full(base, name)
                if stamp is None:
                    # Something empty of the same name is what marks the folder, not known as that where all was listed.
                    if (known := state.stamps.get(self._url(full))) is not None and known.length == 0:
                        state.objects.pop(self._url(full), None)
                        del state.stamps[self._url(full)]
                    entries.append({"name": full, "size": 0, "type": "directory"})
                else:
                    self._remember(state.stamps, self._url(full), stamp)
                    entries.append(self._describe(full, stamp))
        return entries

    def _is_above_all(self, path: str) -> bool:
        """Is this what all buckets lie in?"""
        return not path.strip("/") and _SCHEMES.get(str(self.target_protocol), self.target_protocol) != "file"

    def _full(self, base: str, name: str) -> str:
        if self.target_protocol in ("file", "local"):
            return f"/{name}"
        if "://" in base:
            scheme, rest = base.split("://", 1)
            return f"{scheme}://{rest.split('/', 1)[0]}/{quote(name)}"
        return f"{base.split('/', 1)[0]}/{name}"

    @staticmethod
    def _describe(path: str, stamp: Stamp) -> dict[str, Any]:
        return {
            "name": path,
            "size": stamp.length,
            "type": "file",
            "ETag": stamp.etag,
            "mtime": stamp.modified,
        }

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """What lies directly under a path; a file's own entry if it is one."""
        entries = self._listed(path, deep=False)
        if not entries:
            entries = [self.info(path)]
        return entries if detail else sorted(entry["name"] for entry in entries)

    def _lists_below(self, path: str) -> bool:
        """Folders are parts of names. Local ones are there by themselves, and most servers of HTTP list nothing."""
        return not self._url(path).startswith(("file://", "http://", "https://"))

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """What is known of a path."""
        path = self._strip_protocol(path)
        if not path.strip("/"):
            return {"name": path, "size": 0, "type": "directory"}
        # A bucket is no object.
        if "/" in path or self.target_protocol in (None, "file", "local"):
            try:
                return self._describe(path, self._objects([path])[0].stamp)
            except FileNotFoundError:
                if not self._is_folder(path):
                    raise
        elif not self._listed(path, deep=False):
            raise FileNotFoundError(f"{path}: nothing is there")
        return {"name": path, "size": 0, "type": "directory"}

    def _is_folder(self, path: str) -> bool:
        try:
            return bool(self._listed(path, deep=False))
        except FileNotFoundError:
            return False
        except OSError:
            # Most servers of HTTP list nothing.
            if self._url(path).startswith(("http://", "https://")):
                return False
            raise

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Is there something? A store that refuses or fails has not said no: that raises what it raises elsewhere."""
        try:
            self.info(path, **kwargs)
        except FileNotFoundError:
            return False
        return True

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The bytes of a file, or a part of them."""
        return self._read(path, start or 0, end)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The bytes of a file, or of several, which are waited for at the same time: a dict of them by their paths."""
        paths = self.expand_path(path, recursive=recursive, **kwargs)
        if isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0])
        nothing: list[int | None] = [None] * len(paths)
        found = zip(paths, self._together(paths, nothing, nothing, on_error))
        return {path: data for path, data in found if on_error != "omit" or isinstance(data, bytes)}

    def cat_ranges(
        self, paths: list[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **kwargs: Any
    ) -> list[Any]:
        """Parts of files, which are waited for at the same time. Neighbours come by one request anyhow."""
        starts, ends = (at if isinstance(at, list) else [at] * len(paths) for at in (starts, ends))
        if not len(starts) == len(ends) == len(paths):
            raise ValueError(f"starts, ends: as many as paths are needed, which are {len(paths)}")
        return self._together(paths, starts, ends, on_error)

    def _together(
        self, paths: list[str], starts: list[int | None], ends: list[int | None], on_error: str
    ) -> list[Any]:
        return together(self.cat_file, list(zip(paths, starts, ends)), _TOGETHER, on_error != "raise")

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> ForetellFile:
        if mode != "rb":
            self._read_only(path)
        first = (-_FIRST_BYTES, None) if path.endswith(_READ_FROM_THE_END) else (0, _FIRST_BYTES)
        return ForetellFile(self, path, self._objects([path], first)[0], **kwargs)

    def get_file(self, rpath: str, lpath: Any, *args: Any, **kwargs: Any) -> None:
        """Copies a file to this machine; of a folder it makes one."""
        with suppress(FileNotFoundError):
            self._objects([rpath], (0, None))
        super().get_file(rpath, lpath, *args, **kwargs)

    def created(self, path: str) -> Any:
        """Stores do not say."""
        raise NotImplementedError("stores keep the time of the last modification alone")

    def modified(self, path: str) -> datetime:
        """When a file was modified last."""
        if (at := self.info(path).get("mtime")) is None:
            raise FileNotFoundError(f"{path}: no file, and of others stores do not say")
        return datetime.fromtimestamp(at, timezone.utc)

    # ---- what is not there ----

    def _read_only(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{path}: foretell only reads")

    cp_file = mkdir = makedirs = pipe_file = rm = rm_file = rmdir = touch = _read_only

    def put_file(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Nothing is written."""
        self._read_only(rpath)
