# SPDX-License-Identifier: Apache-2.0
"""Random bfloat16 tensors and the safetensors file around them, with the standard library alone.

So the bytes depend on the seed and nothing else: no release of a numerics library can change them.
"""

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import NormalDist


@dataclass(frozen=True)
class Tensor:
    """`shape` bfloat16 numbers, in row-major order, two little-endian bytes each."""

    shape: tuple[int, ...]
    data: bytes


def normal(seed: str, *shape: int, deviation: float) -> Tensor:
    """Numbers around 0 with this standard deviation, one of 256 quantiles each. The same `seed`, the same tensor."""
    table = [_bfloat16(deviation * NormalDist().inv_cdf((step + 0.5) / 256)) for step in range(256)]
    choices = hashlib.shake_256(seed.encode()).digest(prod(shape))
    data = bytearray(2 * len(choices))
    data[0::2] = choices.translate(bytes(low for low, _ in table))
    data[1::2] = choices.translate(bytes(high for _, high in table))
    return Tensor(shape, bytes(data))


def matrix(seed: int, name: str, rows: int, columns: int, gain: float = 1.0) -> tuple[str, Tensor]:
    """The projection `name` of `columns` to `rows` numbers: it multiplies their standard deviation by `gain`."""
    return name, normal(f"{seed}/{name}", rows, columns, deviation=gain * columns**-0.5)


def constant(value: float, *shape: int) -> Tensor:
    """One number everywhere."""
    return Tensor(shape, _bfloat16(value) * prod(shape))


def only_rows(tensor: Tensor, rows: Iterable[int]) -> Tensor:
    """The same matrix with every row that is not in `rows` set to zero."""
    width = 2 * prod(tensor.shape[1:])
    data = bytearray(len(tensor.data))
    for row in rows:
        data[row * width : (row + 1) * width] = tensor.data[row * width : (row + 1) * width]
    return Tensor(tensor.shape, bytes(data))


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors` in the safetensors format: header length, JSON header, then the data one after another."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.data)


def _bfloat16(value: float) -> bytes:
    """The upper half of the nearest float32, rounded."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<I", bits + 0x8000)[2:]
