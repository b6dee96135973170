"""The sampler that discloses the order it is about to produce."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretell
from foretell.torch import DisclosingSampler, Files, Offsets, Records
from recorder import Entry, Recorder


class Noted:
    """A layout that notes what it is told."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def disclose(self, indices: Sequence[int]) -> None:
        assert indices
        self.indices += indices


@given(count=st.integers(0, 60), window=st.integers(1, 20), seed=st.integers(0, 9))
def test_the_order_is_disclosed_once_and_in_time(count: int, window: int, seed: int) -> None:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    noted = Noted()
    produced = []
    for item in DisclosingSampler(order, noted, window=window):
        produced.append(item)
        assert noted.indices == order[: len(noted.indices)]
        ahead = len(noted.indices) - len(produced)
        assert window <= ahead + 1 or noted.indices == order
        assert ahead < 2 * window
    assert produced == noted.indices == order


@given(sizes=st.lists(st.integers(0, 5), max_size=20), window=st.integers(1, 10))
def test_batches_stay_what_they_are(sizes: list[int], window: int) -> None:
    numbers = iter(range(1000))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    noted = Noted()
    assert list(DisclosingSampler(batches, noted, window=window)) == batches
    assert noted.indices == list(range(sum(sizes)))


@given(
    count=st.integers(0, 30), window=st.integers(1, 100), epochs=st.integers(1, 5), told=st.booleans(), seed=st.integers(0, 9)
)
def test_the_next_epochs_are_disclosed_before_the_present_one_ends(
    count: int, window: int, epochs: int, told: bool, seed: int
) -> None:
    class Shuffled:
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return count

        def __iter__(self) -> Iterator[int]:
            order = random.Random(seed + self.epoch).sample(range(count), count)
            self.epoch += not told
            return iter(order)

    def order(epoch: int) -> list[int]:
        return random.Random(seed + epoch).sample(range(count), count)

    noted = Noted()
    sampler = DisclosingSampler(Shuffled(), noted, window=window, epochs=epochs)
    everything = [at for epoch in range(epochs) for at in order(epoch)]
    produced = 0
    for epoch in range(epochs):
        if told:
            sampler.set_epoch(epoch)
        for at, item in enumerate(sampler):
            assert item == order(epoch)[at]
            produced += 1
            assert noted.indices == everything[: len(noted.indices)]
            ahead = len(noted.indices) - produced
            assert window <= ahead + 1 or noted.indices == everything
            assert ahead < 2 * window
    assert noted.indices == everything
    # Whoever goes on begins anew.
    if told:
        sampler.set_epoch(epochs)
    assert list(sampler) == order(epochs)


def test_another_epoch_than_the_next_one_withdraws_what_was_drawn() -> None:
    class Epochs:
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            return iter(range(self.epoch * 10, self.epoch * 10 + 3))

    class Cancelling(Noted):
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    noted = Cancelling()
    sampler = DisclosingSampler(Epochs(), noted, window=10, epochs=3)
    sampler.set_epoch(0)
    assert list(sampler) == [0, 1, 2] and noted.indices == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    sampler.set_epoch(7)
    assert noted.cancelled == 1
    assert list(sampler) == [70, 71, 72]
    sampler.set_epoch(8)
    produced = iter(sampler)
    assert next(produced) == 80 and noted.cancelled == 1
    del produced
    assert noted.cancelled == 2
    with pytest.raises(ValueError, match="epochs: 0 is not positive"):
        DisclosingSampler(Epochs(), noted, epochs=0)


def test_it_looks_like_the_sampler_inside() -> None:
    class Distributed:
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            return iter([self.epoch] * 3)

    inside = Distributed()
    sampler = DisclosingSampler(inside, Noted())
    assert len(sampler) == 3
    assert list(sampler) == [0, 0, 0]
    sampler.set_epoch(4)
    assert list(sampler) == [4, 4, 4]
    assert sampler.sampler is inside


def test_indices_may_be_numpys(recorder: Recorder, table: BinaryIO) -> None:
    order = np.array([3, 1])
    assert list(DisclosingSampler(order, Records(table, 10))) == [3, 1]
    assert [entry.offset for entry in recorder.said()] == [30, 10]


def test_a_window_is_positive() -> None:
    with pytest.raises(ValueError, match="^window: 0 is not positive$"):
        DisclosingSampler([1], Noted(), window=0)


def test_giving_up_withdraws(recorder: Recorder, table: BinaryIO) -> None:
    produced = iter(DisclosingSampler(range(100), Records(table, 10), window=4))
    next(produced)
    assert len(recorder.said()) == 8
    produced.close()  # type: ignore[attr-defined]
    assert recorder.said() == [Entry("cancel")]
    # At the end workers are still reading.
    list(DisclosingSampler(range(3), Records(table, 10)))
    assert Entry("cancel") not in recorder.said()


@pytest.fixture
def samples(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.sample" for number in range(150)]
    for number, path in enumerate(paths):
        path.write_bytes(number.to_bytes(2, "little") * (number + 1))
    return paths


def test_a_file_for_each_sample(recorder: Recorder, samples: list[Path]) -> None:
    order = list(range(len(samples)))
    random.Random(1).shuffle(order)
    samples[order[70]].unlink()
    Files(samples).disclose(order)
    expected = [Entry("disclose_file", str(samples[at])) for at in order]
    del expected[70]
    assert recorder.said() == expected


def test_records(recorder: Recorder, table: BinaryIO) -> None:
    Records(table, 100, first=16).disclose([5, 0])
    assert [entry[2:4] for entry in recorder.said()] == [(516, 100), (16, 100)]


@pytest.mark.parametrize("of", [list, np.array])
def test_offsets(recorder: Recorder, table: BinaryIO, of: Any) -> None:
    Offsets(table, of([0, 10, 10, 25])).disclose([2, 1, 0])
    assert [entry[2:4] for entry in recorder.said()] == [(10, 15), (0, 10)]


class Loader:
    """What a data loader does: the main process draws, workers read, results come in the order drawn."""

    def __init__(self, paths: list[Path], sampler: DisclosingSampler[int], start_method: str) -> None:
        self._paths = paths
        self._sampler = sampler
        self._context = multiprocessing.get_context(start_method)

    def __iter__(self) -> Iterator[bytes]:
        with self._context.Pool(2) as workers:
            paths = (self._paths[at] for at in self._sampler)
            yield from workers.imap(Path.read_bytes, paths, chunksize=4)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_read_what_the_main_process_disclosed(
    recorder: Recorder, samples: list[Path], start_method: str
) -> None:
    order = list(range(len(samples)))
    random.Random(2).shuffle(order)
    before = len(recorder.connections)
    epoch = list(Loader(samples, DisclosingSampler(order, Files(samples), window=16), start_method))
    assert epoch == [samples[at].read_bytes() for at in order]
    assert recorder.said() == [Entry("disclose_file", str(samples[at])) for at in order]
    # A worker with a connection of its own would read on its own account.
    assert len(recorder.connections) == before


if importlib.util.find_spec("torch") is not None:

    @pytest.mark.parametrize("start_method", ["fork", "spawn"])
    def test_a_data_loader_of_pytorch(recorder: Recorder, samples: list[Path], start_method: str) -> None:
        data = importlib.import_module("torch.utils.data")
        before = len(recorder.connections)
        paths = [str(path) for path in samples]
        inside = data.BatchSampler(data.RandomSampler(paths), 7, drop_last=False)
        loader: Any = data.DataLoader(
            paths,
            batch_sampler=DisclosingSampler(inside, Files(samples), window=16),
            num_workers=2,
            multiprocessing_context=start_method,
        )
        read = [path for batch in loader for path in batch]
        assert sorted(read) == sorted(paths)
        assert recorder.said() == [Entry("disclose_file", path) for path in read]
        assert len(recorder.connections) == before
