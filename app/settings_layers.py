"""The places settings are written in: each read into dotted keys and plain values, and named in messages."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from octavo.app.errors import SettingsError

PREFIX = "OCTAVO_"
# Variables with the prefix that are not settings: folders, kernels, and the test suite's own.
_OTHER_VARIABLES = ("OCTAVO_HOME", "OCTAVO_NATIVE_ISA")
_TEST_PREFIX = "OCTAVO_TEST_"
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_WHOLE = re.compile(r"[+-]?[0-9]+")

Kinds = Mapping[str, Any]


@dataclass(frozen=True)
class Layer:
    """Dotted key -> value as it was written, and the name of the place of a key."""

    values: dict[str, Any]
    place: Callable[[str], str]


def file_layer(path: Path, kinds: Kinds) -> Layer:
    """The settings in a TOML file; none if there is no file. kinds: dotted key -> type of every setting.

    Raises SettingsError, naming the file, for one that cannot be read, is not UTF-8 or not TOML, and for an
    unknown key.
    """
    values = _flatten(_read_toml(path), kinds, str(path))
    for key in values:
        if key not in kinds:
            raise SettingsError(f"{path} has the unknown key {key}; {_hint(key, kinds)}")
    return Layer(values, lambda key: str(path))


def environment_layer(environ: Mapping[str, str], kinds: Kinds) -> Layer:
    """The settings in OCTAVO_* variables; an empty one counts as unset.

    Raises SettingsError for a variable that names no setting.
    """
    names = {variable_of(key): key for key in kinds}
    values = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name in _OTHER_VARIABLES or name.startswith(_TEST_PREFIX):
            continue
        if name not in names:
            raise SettingsError(f"The environment variable {name} is no setting; {_hint(name, names)}")
        if text:
            values[names[name]] = _from_text(text, kinds[names[name]])
    return Layer(values, variable_of)


def flags_layer(flags: Mapping[str, object], kinds: Kinds) -> Layer:
    """The settings given on the command line, nested as in the file; None is a flag that was not given."""
    given = _flatten(flags, kinds, "the flags")
    for key in given:
        if key not in kinds:
            raise SettingsError(f"{flag_of(key)} is no setting; {_hint(key, kinds)}")
    values = {key: value for key, value in given.items() if value is not None}
    return Layer(values, flag_of)


def variable_of(key: str) -> str:
    """generation.top_p -> OCTAVO_GENERATION_TOP_P"""
    return PREFIX + key.replace(".", "_").upper()


def flag_of(key: str) -> str:
    """generation.top_p -> --top-p"""
    return "--" + key.rpartition(".")[2].replace("_", "-")


def _flatten(values: Mapping[str, Any], kinds: Kinds, place: str) -> dict[str, Any]:
    """The keys within the tables that hold settings become dotted; any other table stays a value."""
    tables = {key.partition(".")[0] for key in kinds if "." in key}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key not in tables:
            flat[key] = value
        elif isinstance(value, Mapping):
            flat |= {f"{key}.{name}": item for name, item in value.items()}
        else:
            raise SettingsError(f"{key} in {place} is {value!r}; accepted is a table, [{key}].")
    return flat


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise SettingsError(f"{path} is not UTF-8 text: line {line} has the byte 0x{byte:02x}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None


def _from_text(text: str, kind: Any) -> Any:
    """A variable's text as the type of its setting, or as it is where it does not read as one."""
    kinds = {kind, get_origin(kind), *get_args(kind)}
    stripped = text.strip()
    if bool in kinds:
        word = stripped.lower()
        return word in _TRUE if word in _TRUE + _FALSE else text
    if int in kinds:
        return int(stripped) if _WHOLE.fullmatch(stripped) else text
    if float in kinds:
        try:
            return float(stripped)
        except ValueError:
            return text
    if tuple in kinds:
        return _list_from_text(stripped) if stripped.startswith("[") else [text]
    return text


def _list_from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _hint(name: str, known: Mapping[str, Any]) -> str:
    """The end of a sentence: the name that was probably meant, perhaps of another table, or all there are."""
    last = name.rpartition(".")[2].replace("-", "_")
    by_last = {key.rpartition(".")[2]: key for key in known}
    close = [by_last[last]] if last in by_last else []
    close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    close = close or [by_last[key] for key in difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)]
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}."
