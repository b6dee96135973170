"""What foretell.gguf and foretell.safetensors have in common: tensors whose places are known are read in the order in which
they lie, with those to come disclosed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from foretell.fs import ForetellFileSystem


def in_order(
    fs: ForetellFileSystem, path: str, places: Mapping[str, tuple[int, int]], names: Collection[str] | None
) -> Iterator[tuple[str, bytearray]]:
    """Names and bytes of those tensors of a file that are wanted, all of them without `names`.

    places: offset and length of each, in bytes of the file. Raises KeyError for a name that is not there.
    """
    if missing := sorted(set(names or ()) - places.keys()):
        raise KeyError(f"{path}: no tensor {missing[0]!r}")
    wanted = [(name, *place) for name, place in places.items() if names is None or name in names]
    wanted.sort(key=lambda one: one[1])
    one = fs.opened(path)
    fs.pool.disclose((one, offset, length) for _, offset, length in wanted)
    for name, offset, length in wanted:
        yield name, one.read_array(offset, length)
