"""Safetensors files, made by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foretell.fs import ForetellFileSystem
from foretell.safetensors import load

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "first": np.arange(60_000, dtype=np.float32).reshape(200, 300),
    "empty": np.zeros((0, 4), dtype=np.int64),
    "scalar": np.array(7, dtype=np.int16),
    "last": np.arange(9, dtype=np.uint8),
}


def written(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> ForetellFileSystem:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return ForetellFileSystem("file", budget_bytes=1 << 20, part_bytes=4096, skip_instance_cache=True)


def described() -> tuple[dict[str, Any], bytes]:
    types = {"float32": "F32", "int64": "I64", "int16": "I16", "uint8": "U8"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in ARRAYS.items():
        at = len(data)
        data += array.tobytes()
        header[name] = {"dtype": types[array.dtype.name], "shape": array.shape, "data_offsets": [at, len(data)]}
    return header, data


def test_tensors_are_those_of_the_file_and_fetched_once(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fs = written(path, *described())
    got = dict(load(fs, str(path)))
    assert list(got) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert np.array_equal(got[name].numpy(), array) and got[name].shape == array.shape
    # In memory of their own.
    got["last"].numpy()[0] = 100
    assert got["last"].data[0] == 100
    assert [name for name, _ in load(fs, str(path), ["last", "scalar"])] == ["scalar", "last"]
    assert fs.statistics().fetched_bytes == path.stat().st_size
    with pytest.raises(KeyError, match="no tensor 'second'"):
        list(load(fs, str(path), ["second"]))


def test_torch_is_given_the_memory_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def frombuffer(data: bytearray, dtype: str) -> np.ndarray[Any, Any]:
        return np.frombuffer(data, dtype=dtype)

    fake = SimpleNamespace(frombuffer=frombuffer, empty=np.empty, float32="float32", int64="int64", bfloat16="bf16")
    monkeypatch.setitem(sys.modules, "torch", fake)
    path = tmp_path / "model.safetensors"
    got = dict(load(written(path, *described()), str(path)))
    assert np.array_equal(got["first"].torch(), ARRAYS["first"])
    assert got["empty"].torch().shape == (0, 4)
    half = {"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}
    other = tmp_path / "other.safetensors"
    one = dict(load(written(other, half, b"ab"), str(other)))["x"]
    assert one.data == b"ab"
    with pytest.raises(TypeError, match="numpy has no type for BF16"):
        one.numpy()


TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "length", "said"),
    [
        ({}, 1000, "a header of 1000 bytes does not fit"),
        ({}, 2**63, "a header of"),
        (b"{", None, "its header cannot be understood"),
        ([1], None, "its header cannot be understood"),
        ({"x": {**TENSOR, "data_offsets": [8, 16]}}, None, "outside of the file"),
        ({"x": {**TENSOR, "shape": [3]}}, None, "not as long as its shape"),
        ({"x": {**TENSOR, "shape": [-2]}}, None, "a number is none"),
        ({"x": {**TENSOR, "dtype": "F31"}}, None, "'F31' is not known"),
        ({"x": {"dtype": "F32"}}, None, "its header cannot be understood"),
    ],
)
def test_what_is_no_such_file_is_said_in_one_line(
    tmp_path: Path, header: Any, length: int | None, said: str
) -> None:
    path = tmp_path / "wrong"
    fs = written(path, header, b"12345678", length)
    with pytest.raises(ValueError, match="no safetensors file") as raised:
        list(load(fs, str(path)))
    assert said in str(raised.value) and "\n" not in str(raised.value)
