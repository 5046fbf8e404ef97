"""CRC-32C against its definition, bit by bit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from prune.integrity import crc32c as module
from prune.integrity.crc32c import crc32c, masked


def by_definition(data: bytes, value: int = 0) -> int:
    state = value ^ 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def test_the_known_values_come_out() -> None:
    assert crc32c(b"") == 0
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_any_bytes_agree_with_the_definition(data: bytes, value: int) -> None:
    assert crc32c(data, value) == by_definition(data, value)


def test_long_data_agrees_with_the_definition_and_can_be_continued() -> None:
    data = bytes(i * i >> 3 & 0xFF for i in range(150_001))
    assert crc32c(data) == by_definition(data)
    assert crc32c(data[70_000:], crc32c(data[:70_000])) == crc32c(data)
    assert crc32c(data[: module.CHUNK + 1]) == by_definition(data[: module.CHUNK + 1])


def test_each_fold_is_the_remainder_it_claims_to_be() -> None:
    for step, powers in module._FOLDS:
        remainder, base, exponent = 1, 2, step
        while exponent:
            if exponent & 1:
                remainder = _times(remainder, base)
            base, exponent = _times(base, base), exponent >> 1
        assert remainder == sum(1 << power for power in powers)


def _times(one: int, other: int) -> int:
    """A product modulo the generator, lowest bit the lowest power."""
    product = 0
    while other:
        if other & 1:
            product ^= one
        one, other = one << 1, other >> 1
    for bit in range(product.bit_length() - 1, 31, -1):
        if product >> bit & 1:
            product ^= 0x11EDC6F41 << bit - 32
    return product


def test_the_masked_form_turns_and_adds() -> None:
    assert masked(0) == 0xA282EAD8
    assert masked(1 << 15) == (1 + 0xA282EAD8) & 0xFFFFFFFF
