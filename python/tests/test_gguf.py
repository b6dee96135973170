"""GGUF files, by their own library's writer and by hand."""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.fs import ForetellFileSystem
from foretell.gguf import load, read_header

# Of its numbers some are of types that numpy warns of.
pytestmark = pytest.mark.filterwarnings("ignore")
gguf: Any = import_module("gguf")

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "first": np.arange(60_000, dtype=np.float32).reshape(200, 300),
    "half": np.arange(64, dtype=np.float16).reshape(4, 4, 4),
    "last": np.arange(9, dtype=np.int8),
}


def file_system() -> ForetellFileSystem:
    return ForetellFileSystem("file", budget_bytes=1 << 20, part_bytes=4096, skip_instance_cache=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "née")
    writer.add_uint64("large", 2**63)
    writer.add_float64("little", 0.25)
    writer.add_bool("so", True)
    writer.add_array("tokens", [f"token {at}" for at in range(30_000)])
    writer.add_array("scores", [at / 4 for at in range(30_000)])
    for name, values in ARRAYS.items():
        writer.add_tensor(name, values)
    quantised = gguf.quantize(ARRAYS["first"][:, :256], gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("quantised", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_tensors_come_in_the_order_of_the_file_and_ahead(model: Path) -> None:
    fs = file_system()
    got = dict(load(fs, str(model)))
    assert list(got) == [*ARRAYS, "quantised"]
    for name, values in ARRAYS.items():
        assert np.array_equal(got[name].numpy(), values) and got[name].numpy().flags.writeable
    statistics = fs.statistics()
    assert statistics.prefetches > statistics.demand_fetches
    assert got["quantised"].type == "Q8_0" and got["quantised"].shape == (200, 256)
    whole = gguf.dequantize(got["quantised"].numpy(), gguf.GGMLQuantizationType.Q8_0)
    assert np.allclose(whole, ARRAYS["first"][:, :256], rtol=0.01, atol=250)
    # All as the format's own library has it.
    for tensor in gguf.GGUFReader(model).tensors:
        mine = got[tensor.name]
        assert np.array_equal(mine.numpy(), tensor.data) and mine.type == tensor.tensor_type.name
    assert [name for name, _ in load(fs, str(model), ["last"])] == ["last"]
    with pytest.raises(KeyError, match="no tensor 'no'"):
        next(load(fs, str(model), ["no"]))


def test_metadata(model: Path) -> None:
    metadata = read_header(file_system(), str(model)).metadata
    assert metadata["general.architecture"] == "llama" and metadata["general.name"] == "née"
    assert (metadata["large"], metadata["little"], metadata["so"]) == (2**63, 0.25, True)
    assert metadata["tokens"] == [f"token {at}" for at in range(30_000)]
    assert list(metadata["scores"]) == [at / 4 for at in range(30_000)]


def test_sizes_of_blocks_are_those_of_the_library() -> None:
    from foretell.gguf import _TYPES

    for number, (name, elements, size) in _TYPES.items():
        kind = gguf.GGMLQuantizationType(number)
        assert kind.name == name and gguf.GGML_QUANT_SIZES[kind] == (elements, size)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def file(values: list[bytes] | None = None, tensors: list[bytes] | None = None, data: bytes = b"") -> bytes:
    values, tensors = values or [], tensors or []
    whole = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join([*values, *tensors])
    return whole + bytes(-len(whole) % 32) + data


def tensor(name: str = "x", shape: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ONE = string("a") + struct.pack("<IB", 0, 7)
NESTED = string("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it ends within its header"),
        (b"GGML" + bytes(40), "it does not begin with GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "its version is 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "its version is"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "do not fit into it"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "do not fit into it"),
        (file([struct.pack("<Q", 2**62)]), "do not fit into it"),
        (file([ONE, ONE]), "'a' is there twice"),
        (file([string("a") + struct.pack("<I", 13)]), "of the type 13"),
        (file([string("a") + struct.pack("<IIQ", 9, 0, 2**50)]), "do not fit into it"),
        (file([string("a") + struct.pack("<IIQ", 9, 99, 0)]), "an array is of the type 99"),
        (file([NESTED]), "too many arrays"),
        (file([string("general.alignment") + struct.pack("<II", 4, 0)]), "its alignment is 0"),
        (file([], [tensor(), tensor()], bytes(64)), "the tensor 'x' is there twice"),
        (file([], [tensor(shape=(1,) * 9)], bytes(64)), "9 dimensions"),
        (file([], [tensor(kind=4)], bytes(64)), "of the type 4"),
        (file([], [tensor(kind=12, shape=(100,))], bytes(64)), "rows of 100 elements"),
        (file([], [tensor(offset=1)], bytes(64)), "not aligned"),
        (file([], [tensor()], bytes(15)), "'x' lies outside of the file"),
        (file([], [tensor(shape=(2**62, 2**62))], bytes(64)), "'x' lies outside of the file"),
    ],
)
def test_what_is_no_such_file_is_said_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "wrong"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="no GGUF file") as raised:
        list(load(file_system(), str(path)))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_header_has_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long"
    path.write_bytes(file([string("a") + struct.pack("<IIQ", 9, 0, 1000) + bytes(1000)]))
    assert len(read_header(file_system(), str(path)).metadata["a"]) == 1000
    monkeypatch.setattr("foretell.gguf._MOST_HEADER", 1000)
    with pytest.raises(ValueError, match="1000 of something do not fit into it"):
        read_header(file_system(), str(path))
    other = tmp_path / "other"
    other.write_bytes(file([string("a" * 960) + struct.pack("<IQ", 10, 1)]))
    with pytest.raises(ValueError, match="its header is longer than 1000 bytes"):
        read_header(file_system(), str(other))


GOOD = file(
    [ONE, string("b") + struct.pack("<II", 9, 8) + struct.pack("<Q", 2) + string("x") + string("yz")],
    [tensor("x"), tensor("y", (2, 32), 8, 32)],
    bytes(32 + 68),
)


@settings(max_examples=500)
@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12), st.integers(0, len(GOOD)))
def test_any_bytes_are_a_file_or_said_to_be_none(
    tmp_path_factory: pytest.TempPathFactory, at: int, other: bytes, length: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    changed = (GOOD[:at] + other + GOOD[at + len(other) :])[: length + at]
    path.write_bytes(changed)
    try:
        got = dict(load(file_system(), str(path)))
    except ValueError as error:
        assert "no GGUF file" in str(error) and "\n" not in str(error)
    else:
        assert all(len(one.data) == one.numpy().nbytes for one in got.values())
