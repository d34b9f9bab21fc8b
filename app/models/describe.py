"""What a model file says about itself, for `octavo models inspect`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.models.files import size_of
from octavo.app.models.text import human_parameters, human_size

if TYPE_CHECKING:
    from octavo.engine.model.spec import ModelSpec


@dataclass(frozen=True)
class Description:
    """One model, read from its header. `formats` maps a tensor format to its bytes, largest first."""

    path: str
    kind: str
    size: int
    name: str
    architecture: str
    context: int
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tensors: int
    formats: dict[str, int]
    rope: str
    tokenizer: str
    chat_template: bool
    license: str | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def as_rows(self) -> list[tuple[str, str]]:
        """Label and text, for people."""
        formats = ", ".join(f"{name} {human_size(count)}" for name, count in self.formats.items())
        heads = f"{self.heads} heads, {self.kv_heads} KV heads of {self.head_dim}"
        return [
            ("path", self.path),
            ("name", self.name),
            ("kind", f"{self.kind}, {human_size(self.size)}"),
            ("architecture", self.architecture),
            ("parameters", human_parameters(self.parameters)),
            ("context", f"{self.context} tokens"),
            ("shape", f"{self.layers} layers, hidden size {self.hidden}, {heads}"),
            ("tensors", str(self.tensors)),
            ("formats", formats),
            ("rope", self.rope),
            ("tokenizer", f"{self.tokenizer}, {self.vocabulary} tokens"),
            ("chat template", "yes" if self.chat_template else "no"),
            ("license", self.license or "not stated"),
        ]


def describe(path: Path) -> Description:
    """Read a GGUF file's or a model folder's header.

    Raises:
        ModelFileError, UnsupportedModelError: as `check_model`.
    """
    return _describe_folder(path) if path.is_dir() else _describe_gguf(path)


def _describe_gguf(path: Path) -> Description:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.weights.gguf import GGUFFile

    file = GGUFFile(path)
    meta = file.metadata
    spec = ModelSpec.from_gguf(meta, file.tensors, path=path)
    tensors = file.tensors.values()
    vocabulary, pre = meta.get("tokenizer.ggml.model", "none"), meta.get("tokenizer.ggml.pre")
    return _description(
        path,
        spec,
        kind="GGUF",
        shapes=[info.shape for info in tensors],
        formats=_sum((info.format.name, info.nbytes) for info in tensors),
        tokenizer=f"{vocabulary} ({pre})" if pre else str(vocabulary),
        chat_template="tokenizer.chat_template" in meta,
        license=meta.get("general.license"),
    )


def _describe_folder(path: Path) -> Description:
    from octavo.engine.model.spec import ModelSpec
    from octavo.engine.tokenizer import TokenizerData
    from octavo.engine.weights.safetensors import SafetensorsFolder

    folder = SafetensorsFolder(path)
    spec = ModelSpec.from_hf_config(folder.config, path)
    tokenizer = TokenizerData.from_folder(path)
    names = list(folder.shapes)
    return _description(
        path,
        spec,
        kind="safetensors",
        shapes=list(folder.shapes.values()),
        formats=_sum((_dtype(folder.tensor(name)), folder.tensor(name).nbytes) for name in names),
        tokenizer=tokenizer.kind,
        chat_template=tokenizer.chat_template is not None,
        license=None,
    )


def _dtype(tensor: Any) -> str:
    return {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[str(tensor.dtype).rsplit(".", 1)[-1]]


def _description(path: Path, spec: ModelSpec, *, shapes: list[tuple[int, ...]], **facts: Any) -> Description:
    return Description(
        path=str(path),
        size=size_of(path),
        name=spec.name,
        architecture=spec.family,
        context=spec.context_length,
        parameters=sum(_product(shape) for shape in shapes),
        layers=spec.num_layers,
        hidden=spec.hidden_size,
        heads=spec.num_heads,
        kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        vocabulary=spec.vocab_size,
        tensors=len(shapes),
        rope=_rope(spec),
        **facts,
    )


def _rope(spec: ModelSpec) -> str:
    scaling = spec.rope.scaling
    text = f"theta {spec.rope.theta:g}"
    return text if scaling == "none" else f"{text}, {scaling} x{spec.rope.factor:g}"


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def _sum(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, count in items:
        totals[name] = totals.get(name, 0) + count
    return dict(sorted(totals.items(), key=lambda item: -item[1]))
