"""The settings: one frozen object from flags, OCTAVO_* variables, the project's file and the user's file.

That is their order, the strongest first. Both files are called octavo.toml: the project's lies in the current
folder, the user's in the config folder (`octavo paths` prints it). A variable is OCTAVO_ and the key in
capitals: OCTAVO_THREADS, OCTAVO_GENERATION_TOP_P.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from octavo.app import units
from octavo.app.errors import SettingsError
from octavo.app.settings_layers import Layer, environment_layer, file_layer, flags_layer
from octavo.engine.config import GenerationPolicy
from octavo.engine.errors import PolicyError
from octavo.storage.paths import SETTINGS_FILE, Paths

_POLICY = GenerationPolicy()
_LARGEST_PAGE = 256
_SHOWN_CHARACTERS = 60

Limit = int | Literal["auto", "off"]
"""A memory budget: bytes, what is measured to be free, or nothing."""


def _read_stop(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _read_limit(value: object) -> Limit:
    if value == "auto" or value == "off":
        return value
    if isinstance(value, str):
        return units.parse_size(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(units.UNIT_MISSING)
    raise ValueError("it is not a size")


_LimitField = Annotated[Limit, BeforeValidator(_read_limit), Field(description=f'"auto", "off" or {units.ACCEPTED}')]


class GenerationSettings(BaseModel):
    """The table [generation]: how answers are made unless a flag says otherwise. See `GenerationPolicy`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    temperature: float = Field(default=_POLICY.temperature, description="a number from 0 (greedy) to 10")
    top_k: int = Field(default=_POLICY.top_k, description="a whole number up to 1000000, or 0 for all")
    top_p: float = Field(default=_POLICY.top_p, description="a number above 0, up to 1 (off)")
    min_p: float = Field(default=_POLICY.min_p, description="a number from 0 (off) to 1")
    repetition_penalty: float = Field(
        default=_POLICY.repetition_penalty, description="a number above 0, up to 10; 1 is off"
    )
    max_tokens: int = Field(default=_POLICY.max_tokens, description="a whole number from 1 to 100000000")
    stop: Annotated[tuple[str, ...], BeforeValidator(_read_stop)] = Field(
        default=_POLICY.stop, description="a list of strings, none of them empty"
    )
    seed: int | None = Field(default=_POLICY.seed, description="a whole number from 0 to 2^63 - 1")

    @field_validator("*")
    @classmethod
    def _in_range(cls, value: Any, info: ValidationInfo) -> Any:
        """The ranges are the engine's."""
        try:
            GenerationPolicy(**{str(info.field_name): value})
        except PolicyError:
            raise PydanticCustomError("range", "out of range") from None
        return value

    def policy(self) -> GenerationPolicy:
        """The same values as the engine takes them."""
        return GenerationPolicy(**self.model_dump())


class Settings(BaseSettings):
    """Every setting, valid and frozen. A field's description says which values are accepted."""

    model_config = SettingsConfigDict(frozen=True, strict=True, extra="forbid")

    model: str | None = Field(default=None, min_length=1, description="a model's name, a .gguf file or a folder")
    offline: bool = Field(default=False, description="true or false")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description='"auto", "cpu" or "cuda"')
    threads: int = Field(
        default=0, ge=0, le=1024, description="a whole number of threads from 1 to 1024, or 0 for automatic"
    )
    page_size: int = Field(default=32, ge=8, le=_LARGEST_PAGE, description="8, 16, 32, 64, 128 or 256 tokens")
    prefill_chunk: int = Field(default=512, ge=8, le=65_536, description="a multiple of page_size, up to 65536 tokens")
    vram: _LimitField = "auto"
    ram: _LimitField = "auto"
    disk: _LimitField = "auto"
    kv_codec: Literal["bf16", "k8v8", "k8v4", "k4v4"] = Field(
        default="k8v4", description='"bf16", "k8v8", "k8v4" or "k4v4"'
    )
    context: int = Field(default=0, ge=0, le=100_000_000, description="tokens, or 0 for what the model was trained on")
    dense_limit: int = Field(
        default=0, ge=0, le=100_000_000, description="tokens read in full, or 0 for what the model was trained on"
    )
    window: int = Field(default=1024, ge=8, le=65_536, description="tokens from 8 to 65536, at least prefill_chunk")
    selected: int = Field(default=2048, ge=8, le=16_384, description="tokens from 8 to 64 times page_size")
    compute_dtype: Literal["auto", "bfloat16", "float32"] = Field(
        default="auto", description='"auto", "bfloat16" or "float32"'
    )
    quantization: Literal["auto", "nf4", "int8", "int4", "none"] = Field(
        default="auto", description='"auto", "nf4", "int8", "int4" or "none"'
    )
    idle_minutes: int = Field(
        default=5, ge=1, le=100_000, description="minutes after which a conversation that is not open leaves the device"
    )
    system: str = Field(default="", description="the text of the system prompt")
    memory: Literal["auto", "manual", "off"] = Field(default="auto", description='"auto", "manual" or "off"')
    embedder: str = Field(default="", description='a folder or hub name of a sentence embedder, "default" or "off"')
    reranker: str = Field(default="", description="a folder with a cross-encoder that orders passages")
    nli: str = Field(default="", description="a folder with an NLI model, which checks citations")
    generation: GenerationSettings = Field(default_factory=GenerationSettings, description="the table [generation]")

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("page_size")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError("it is not a power of two")
        return value

    @field_validator("prefill_chunk")
    @classmethod
    def _whole_pages(cls, value: int, info: ValidationInfo) -> int:
        page_size = info.data.get("page_size")
        if page_size is not None and value % page_size:
            raise ValueError(f"page_size is {page_size}")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # pydantic's own sources ignore variables they do not know and cannot say where a value stood.
        return (init_settings,)

    @property
    def sources(self) -> Mapping[str, str]:
        """Dotted key -> flag, variable or file its value came from, for keys that are not at their default."""
        return MappingProxyType(dict(self._sources))

    def items(self) -> list[tuple[str, Any]]:
        """Dotted key and value of every setting, in order; sizes as they could be written."""
        values = [(key, _value(self, key)) for key in KEYS]
        return [(key, units.format_size(value) if _is_size(key, value) else value) for key, value in values]


def _keys() -> dict[str, Any]:
    """Dotted key -> type of every setting."""
    top = {name: field.annotation for name, field in Settings.model_fields.items() if name != "generation"}
    table = GenerationSettings.model_fields
    return top | {f"generation.{name}": field.annotation for name, field in table.items()}


KEYS: Mapping[str, Any] = MappingProxyType(_keys())


def _is_size(key: str, value: object) -> bool:
    return KEYS[key] == Limit and isinstance(value, int)


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    paths: Paths | None = None,
) -> Settings:
    """The settings in force.

    flags: what the command line was given, shaped as the file: {"model": ..., "generation": {"seed": ...}};
    None is a flag that was not given. Every place must be valid on top of the weaker ones, so a mistake is
    reported even where a stronger place overrides it.
    Raises SettingsError, naming key, place and what is accepted, and StorageError for a bad OCTAVO_HOME.
    """
    environ = os.environ if environ is None else environ
    folder = _current_folder() if cwd is None else cwd
    paths = Paths.from_environment() if paths is None else paths
    layers = [file_layer(paths.user_config_file, KEYS)]
    if folder is not None:
        layers.append(file_layer(folder / SETTINGS_FILE, KEYS))
    layers += [environment_layer(environ, KEYS), flags_layer(flags or {}, KEYS)]
    return _merge(layers)


def _merge(layers: Sequence[Layer]) -> Settings:
    """Later layers win."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    settings = Settings()
    for layer in layers:
        values |= layer.values
        sources |= {key: layer.place(key) for key in layer.values}
        try:
            settings = Settings(**_nested(values))
        except ValidationError as error:
            raise SettingsError(_explain(error, values, sources)) from None
    settings._sources = sources
    return settings


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    top = {key: value for key, value in values.items() if "." not in key}
    table = {key.partition(".")[2]: value for key, value in values.items() if "." in key}
    return top | {"generation": table} if table else top


def _explain(error: ValidationError, values: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """One sentence: key, place, value, the reason where the type alone does not give it, what is accepted."""
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"]]
    key = next(key for key in (".".join(parts[:2]), parts[0]) if key in KEYS)
    shown = json.dumps(values[key], ensure_ascii=False, default=str)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    reason = f" ({first['ctx']['error']})" if first["type"] == "value_error" else ""
    return f"{key} in {sources[key]} is {shown}{reason}; accepted is {_accepted(key)}."


def _accepted(key: str) -> str:
    table, _, name = key.rpartition(".")
    fields = GenerationSettings.model_fields if table else Settings.model_fields
    return str(fields[name].description)


def _value(settings: Settings, key: str) -> Any:
    table, _, name = key.rpartition(".")
    return getattr(settings.generation if table else settings, name)


def _current_folder() -> Path | None:
    """None where the current folder was deleted, so there can be no project file."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None
