import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from octavo.app.errors import SettingsError
from octavo.app.settings import KEYS, Settings, load_settings
from octavo.app.settings_layers import variable_of
from octavo.engine.config import GenerationPolicy
from octavo.storage.paths import Paths


class Places:
    """The four places settings come from, all empty at first."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(*(folder / name for name in ("config", "data", "cache", "state")))
        self.project = folder / "project"
        self.paths.config.mkdir()
        self.project.mkdir()
        self.environ: dict[str, str] = {}
        self.flags: dict[str, object] = {}

    @property
    def user_file(self) -> Path:
        return self.paths.config / "octavo.toml"

    @property
    def project_file(self) -> Path:
        return self.project / "octavo.toml"

    def load(self) -> Settings:
        return load_settings(self.flags, environ=self.environ, cwd=self.project, paths=self.paths)

    def error(self) -> str:
        with pytest.raises(SettingsError) as caught:
            self.load()
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_defaults(places: Places) -> None:
    settings = places.load()

    assert (settings.model, settings.offline, settings.device, settings.threads) == (None, False, "auto", 0)
    assert (settings.page_size, settings.prefill_chunk, settings.kv_codec) == (32, 512, "k8v4")
    assert (settings.vram, settings.ram, settings.disk) == ("auto", "auto", "auto")
    assert settings.generation.policy() == GenerationPolicy()
    assert settings.sources == {}


def test_a_stronger_place_wins_and_is_named(places: Places) -> None:
    places.user_file.write_text("threads = 1\npage_size = 8\ndevice = 'cpu'\nmodel = 'user'\n")
    places.project_file.write_text("threads = 2\npage_size = 16\ndevice = 'cuda'\n")
    places.environ = {"OCTAVO_THREADS": "3", "OCTAVO_PAGE_SIZE": "64"}
    places.flags = {"threads": 4, "device": None}

    settings = places.load()

    assert (settings.threads, settings.page_size, settings.device, settings.model) == (4, 64, "cuda", "user")
    assert settings.sources == {
        "threads": "--threads",
        "page_size": "OCTAVO_PAGE_SIZE",
        "device": str(places.project_file),
        "model": str(places.user_file),
    }


def test_the_generation_table_is_merged_key_by_key(places: Places) -> None:
    places.user_file.write_text("[generation]\ntemperature = 1\ntop_k = 5\nstop = ['END']\n")
    places.project_file.write_text("[generation]\ntop_k = 6\n")
    places.environ = {"OCTAVO_GENERATION_TOP_P": "0.5", "OCTAVO_GENERATION_SEED": "7"}
    places.flags = {"generation": {"seed": 8, "min_p": None}}

    assert places.load().generation.policy() == replace(
        GenerationPolicy(), temperature=1.0, top_k=6, stop=("END",), top_p=0.5, seed=8
    )


def test_variables_are_read_as_the_type_of_their_setting(places: Places) -> None:
    places.environ = {
        "OCTAVO_MODEL": "12",
        "OCTAVO_OFFLINE": "Yes",
        "OCTAVO_VRAM": "1.5 gib",
        "OCTAVO_RAM": "off",
        "OCTAVO_SYSTEM": "",
        "OCTAVO_GENERATION_TEMPERATURE": "1",
        "OCTAVO_GENERATION_STOP": '["a", "b"]',
    }

    settings = places.load()

    assert (settings.model, settings.offline, settings.vram, settings.ram) == ("12", True, 1_610_612_736, "off")
    assert (settings.generation.temperature, settings.generation.stop) == (1.0, ("a", "b"))
    assert "system" not in settings.sources, "an empty variable counts as unset"


def test_one_stop_string_needs_no_brackets_in_a_variable(places: Places) -> None:
    places.environ = {"OCTAVO_GENERATION_STOP": "</s>"}
    assert places.load().generation.stop == ("</s>",)


def test_variables_that_are_no_settings_but_known_are_left_alone(places: Places) -> None:
    places.environ = dict.fromkeys(("OCTAVO_HOME", "OCTAVO_NATIVE_ISA", "OCTAVO_TEST_MODELS", "_OCTAVO_COMPLETE"), "x")
    assert places.load() == Settings()


def test_a_stronger_place_can_go_back_to_automatic(places: Places) -> None:
    places.user_file.write_text("vram = '1GB'\ndisk = 'off'\n")
    places.flags = {"vram": "auto"}
    assert (places.load().vram, places.load().disk) == ("auto", "off")


def test_settings_are_frozen(places: Places) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        places.load().threads = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        places.load().generation.top_k = 3  # type: ignore[misc]


ACCEPTED_SIZE = "a size with its unit, such as 512MB or 8GB"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("threads = '4'", ['threads in FILE is "4"', "a whole number of threads from 1 to 1024"]),
        ("threads = true", ["threads in FILE is true"]),
        ("threads = 1.0", ["threads in FILE is 1.0"]),
        ("threads = -1", ["threads in FILE is -1"]),
        ("threads = 1025", ["threads in FILE is 1025"]),
        ("threads = [1]", ["threads in FILE is [1]"]),
        ("[threads]\na = 1", ['threads in FILE is {"a": 1}']),
        ("offline = 'yes'", ['offline in FILE is "yes"', "true or false"]),
        ("model = 3", ["model in FILE is 3", "a .gguf file"]),
        ("model = ''", ['model in FILE is ""']),
        ("device = 'gpu'", ['device in FILE is "gpu"', '"auto", "cpu" or "cuda"']),
        ("compute_dtype = 'float16'", ['"auto", "bfloat16" or "float32"']),
        ("quantization = 4", ['"nf4"']),
        ("page_size = 48", ["page_size in FILE is 48", "8, 16, 32, 64, 128 or 256"]),
        ("page_size = 4", ["page_size in FILE is 4"]),
        ("page_size = 512", ["page_size in FILE is 512"]),
        ("prefill_chunk = 100", ["prefill_chunk in FILE is 100", "page_size is 32", "a multiple of page_size"]),
        ("page_size = 64\nprefill_chunk = 96", ["prefill_chunk in FILE is 96", "page_size is 64"]),
        ("vram = 20000000", ["vram in FILE is 20000000", "leaves open", ACCEPTED_SIZE]),
        ("vram = '20000000'", ['vram in FILE is "20000000"', "leaves open", ACCEPTED_SIZE]),
        ("vram = '8XB'", ["XB is not a unit", ACCEPTED_SIZE]),
        ("vram = '0GB'", ["more than zero", ACCEPTED_SIZE]),
        ("vram = '-1GB'", ["more than zero"]),
        ("vram = true", ["vram in FILE is true"]),
        ("ram = false", ["ram in FILE is false"]),
        ("disk = 'none'", ['disk in FILE is "none"', '"auto", "off" or a size']),
        ("kv_codec = 'f32'", ['kv_codec in FILE is "f32"', '"k8v4"']),
        ("system = 1", ["system in FILE is 1"]),
        ("generation = 3", ["generation in FILE is 3", "a table, [generation]"]),
        ("[[generation]]\ntop_p = 1", ["a table, [generation]"]),
        ("[generation]\ntemperature = 'hot'", ['generation.temperature in FILE is "hot"', "from 0 (greedy) to 10"]),
        ("[generation]\ntemperature = nan", ["generation.temperature in FILE is NaN"]),
        ("[generation]\ntemperature = -0.1", ["generation.temperature in FILE is -0.1"]),
        ("[generation]\ntop_k = 0.5", ["generation.top_k in FILE is 0.5"]),
        ("[generation]\ntop_p = 0", ["generation.top_p in FILE is 0", "above 0, up to 1"]),
        ("[generation]\nmin_p = 2", ["generation.min_p in FILE is 2"]),
        ("[generation]\nrepetition_penalty = 0", ["generation.repetition_penalty in FILE is 0"]),
        ("[generation]\nmax_tokens = 0", ["generation.max_tokens in FILE is 0", "from 1"]),
        ("[generation]\nseed = -1", ["generation.seed in FILE is -1"]),
        ("[generation]\nstop = 'END'", ['generation.stop in FILE is "END"', "a list of strings"]),
        ("[generation]\nstop = ['']", ["generation.stop in FILE", "none of them empty"]),
        ("[generation]\nstop = [1]", ["generation.stop in FILE is [1]"]),
    ],
)
def test_a_wrong_value_names_key_file_and_what_is_accepted(places: Places, text: str, parts: list[str]) -> None:
    places.user_file.write_text(text)

    message = places.error()

    for part in parts:
        assert part.replace("FILE", str(places.user_file)) in message


@pytest.mark.parametrize(
    ("text", "key", "suggestion"),
    [
        ("threds = 3", "threds", "threads"),
        ("kv-codec = 'bf16'", "kv-codec", "kv_codec"),
        ("temperature = 3", "temperature", "generation.temperature"),
        ("[generation]\nthreads = 3", "generation.threads", "threads"),
        ("[generation]\ntempratur = 3", "generation.tempratur", "generation.temperature"),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(places: Places, text: str, key: str, suggestion: str) -> None:
    places.project_file.write_text(text)
    assert places.error() == f"{places.project_file} has the unknown key {key}; did you mean {suggestion}?"


def test_an_unknown_key_like_no_other_lists_what_there_is(places: Places) -> None:
    places.project_file.write_text("zzz = 1")
    assert places.error().endswith(f"has the unknown key zzz; known are {', '.join(KEYS)}.")


def test_unknown_and_wrong_variables(places: Places) -> None:
    places.environ = {"OCTAVO_TEMPERATURE": "1"}
    assert places.error() == (
        "The environment variable OCTAVO_TEMPERATURE is no setting; did you mean OCTAVO_GENERATION_TEMPERATURE?"
    )
    places.environ = {"OCTAVO_THREADS": "many"}
    assert places.error().startswith('threads in OCTAVO_THREADS is "many"; accepted is a whole number')
    places.environ = {"OCTAVO_VRAM": "20000000"}
    assert places.error().startswith("vram in OCTAVO_VRAM is 20000000 (a number alone leaves open")
    places.environ = {"OCTAVO_OFFLINE": "maybe"}
    assert places.error().endswith("accepted is true or false.")


def test_a_wrong_flag_is_named_as_typed(places: Places) -> None:
    places.flags = {"generation": {"top_k": -1}}
    assert places.error().startswith("generation.top_k in --top-k is -1; accepted is")


def test_a_mistake_is_reported_even_where_a_flag_overrides_it(places: Places) -> None:
    places.user_file.write_text("threads = -1")
    places.flags = {"threads": 2}
    assert str(places.user_file) in places.error()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"threads = 1\nmodel = \n", "is not valid TOML: Invalid value (at line 2, column 9)"),
        (b"threads = 1\nthreads = 2\n", "is not valid TOML"),
        (b"threads = 1\nmodel = '\xff'\n", "is not UTF-8 text: line 2 has the byte 0xff"),
        (b"\xff\xfet\x00", "is not UTF-8 text: line 1 has the byte 0xff"),
    ],
)
def test_a_broken_file_is_named_with_its_line(places: Places, data: bytes, reason: str) -> None:
    places.user_file.write_bytes(data)
    assert places.error().startswith(f"{places.user_file} {reason}")


def test_a_byte_order_mark_is_no_mistake(places: Places) -> None:
    places.user_file.write_bytes(b"\xef\xbb\xbfthreads = 3\n")
    assert places.load().threads == 3


def test_a_folder_in_the_place_of_a_file_is_an_error(places: Places) -> None:
    places.user_file.mkdir()
    assert places.error() == f"{places.user_file} cannot be read: Is a directory."


def test_a_current_folder_that_is_gone_has_no_project_file(
    octavo_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert load_settings() == Settings()
    finally:
        monkeypatch.undo()


def test_the_process_environment_is_the_default(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (octavo_home / "config").mkdir(parents=True)
    (octavo_home / "config" / "octavo.toml").write_text("threads = 2\npage_size = 16\n")
    Path("octavo.toml").write_text("threads = 3\n")
    monkeypatch.setenv("OCTAVO_DEVICE", "cpu")

    settings = load_settings()

    assert (settings.threads, settings.page_size, settings.device) == (3, 16, "cpu")


def test_every_key_has_a_variable_of_its_own() -> None:
    assert len({variable_of(key) for key in KEYS}) == len(KEYS)


def test_items_show_every_setting(places: Places) -> None:
    items = dict(places.load().items())
    assert list(items) == list(KEYS)
    assert items["vram"] == "auto"
    places.flags = {"vram": "6GiB", "disk": "100 gb"}
    assert [dict(places.load().items())[key] for key in ("vram", "ram", "disk")] == ["6GiB", "auto", "100GB"]
    assert items["generation.temperature"] == asdict(GenerationPolicy())["temperature"]


TOML_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20),
)


@given(key=st.sampled_from(sorted(KEYS)), value=TOML_VALUES)
def test_any_value_is_taken_as_it_is_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    places = Places(tmp_path_factory.mktemp("settings"))
    table, _, name = key.rpartition(".")
    head = f"[{table}]\n" if table else ""
    places.user_file.write_text(f"{head}{name} = {json.dumps(value, ensure_ascii=False)}\n", encoding="utf-8")

    try:
        settings = places.load()
    except SettingsError as error:
        assert str(error).startswith(f"{key} in {places.user_file} is ")  # noqa: PT017
        assert "; accepted is " in str(error)  # noqa: PT017
    else:
        assert settings.sources[key] == str(places.user_file)
        if key not in ("vram", "ram", "disk"):
            assert dict(settings.items())[key] == value
