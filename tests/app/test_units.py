from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app.units import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8_000_000_000),
        ("8GiB", 8_589_934_592),
        ("512MB", 512_000_000),
        ("512MiB", 536_870_912),
        ("1.5GiB", 1_610_612_736),
        ("1.5 gib", 1_610_612_736),
        (" 8  gb ", 8_000_000_000),
        (".5kB", 500),
        ("1KIB", 1024),
        ("2TB", 2_000_000_000_000),
        ("1PiB", 1_125_899_906_842_624),
        ("100B", 100),
        ("+1MB", 1_000_000),
        ("1.0000000001GB", 1_000_000_000),
    ],
)
def test_sizes_that_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("20000000", "leaves open"),
        ("8", "leaves open"),
        ("-8", "leaves open"),
        ("0GB", "more than zero"),
        ("-1GB", "more than zero"),
        ("0.1B", "more than zero"),
        ("8G", "G is not a unit"),
        ("8Gbit", "Gbit is not a unit"),
        ("8XB", "XB is not a unit"),
        ("", "not a number and a unit"),
        ("GB", "not a number and a unit"),
        ("1,5GB", "not a number and a unit"),
        ("1e3MB", "not a number and a unit"),
        ("nanGB", "not a number and a unit"),
        ("1 000MB", "not a number and a unit"),
        ("٣GB", "not a number and a unit"),
        ("8GB8", "not a number and a unit"),
        ("99999999999PB", "more than a computer can address"),
    ],
)
def test_sizes_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_size(text)


@given(
    st.decimals(min_value=Decimal("0.001"), max_value=9999, places=3),
    st.sampled_from([("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30)]),
    st.sampled_from(["", " "]),
    st.booleans(),
)
def test_any_number_times_its_unit(number: Decimal, unit: tuple[str, int], space: str, upper: bool) -> None:
    name, factor = unit
    text = f"{number:f}{space}{name.upper() if upper else name.lower()}"

    assert parse_size(text) == int(number * factor)


@given(st.text(max_size=12))
def test_any_text_is_a_size_above_zero_or_refused(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        return
    assert 0 < size < 2**63


@pytest.mark.parametrize(
    ("size", "text"),
    [(6 << 30, "6GiB"), (8_000_000_000, "8GB"), (1_610_612_736, "1536MiB"), (1, "1B"), (1000, "1kB"), (1025, "1025B")],
)
def test_a_size_as_it_could_be_written(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(1, 2**63 - 1))
def test_what_is_written_is_read_as_the_same_size(size: int) -> None:
    assert parse_size(format_size(size)) == size
