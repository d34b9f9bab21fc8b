"""A model ready to run: its spec, its tokenizer's data and its weights, from a GGUF file or a folder."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.model.spec import ModelSpec
from octavo.engine.weights.formats import dequantize
from octavo.engine.weights.gguf import GGUFFile
from octavo.engine.weights.layout import check_tensors, expected_tensors, hf_name, unpermute_rows
from octavo.engine.weights.matrix import BlockMatrix, Weight
from octavo.engine.weights.quantize import Scheme, quantize_matrix
from octavo.engine.weights.safetensors import CONFIG, SafetensorsFolder, weight_files

if TYPE_CHECKING:
    from octavo.engine.tokenizer import TokenizerData

Quantization = Literal["auto", "nf4", "int8", "int4", "none"]

_ROPE_FACTORS = "rope_freqs.weight"
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded model.

    matrices: canonical tensor name -> Weight. vectors: canonical name -> float32 [n] (norms, biases).
    Without output.weight the embedding is the head (spec.tied_embeddings). Every attn_q and attn_k is in
    the row order of Hugging Face: RoPE rotates row i of a head with row i + head_dim / 2.
    """

    path: Path
    spec: ModelSpec
    tokenizer: "TokenizerData"
    matrices: dict[str, Weight]
    vectors: dict[str, Tensor]
    give_back: Callable[[], None] = field(default=lambda: None, repr=False)
    """Lets the system have the memory of what was read of the file; what is used again is read again."""

    def rearrange(self, arrange: Callable[[Weight], Weight]) -> None:
        """Replace, one by one, the matrices that are multiplied by what kernels compute with: see `Kernels.arrange`."""
        for name, matrix in self.matrices.items():
            if name != _EMBEDDING or _HEAD not in self.matrices:
                self.matrices[name] = arrange(matrix)
                self.give_back()

    @property
    def nbytes(self) -> int:
        """Bytes of weights held in memory (those mapped from a file count too)."""
        matrices = sum(matrix.nbytes for matrix in self.matrices.values())
        return matrices + sum(vector.nbytes for vector in self.vectors.values())

    @property
    def token_nbytes(self) -> int:
        """Bytes of weights that computing one token reads: of an embedding that is not the head, one row."""
        embedding = self.matrices[_EMBEDDING]
        unread = embedding.nbytes if _HEAD in self.matrices else 0
        return self.nbytes - unread * (embedding.shape[0] - 1) // embedding.shape[0]

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the weights, read from disk on each call.

        Of a GGUF file it is the file's own hash. Of a folder it is the hash of a list: name and hash of
        config.json and of each weight file, then name and format of each matrix, because quantization on
        load makes other weights of the same files.
        """
        if self.path.is_file():
            return _file_sha256(self.path)
        files = [self.path / CONFIG, *weight_files(self.path)]
        lines = [f"{file.name} {_file_sha256(file)}" for file in files]
        lines += [f"{name} {matrix.format_name}" for name, matrix in sorted(self.matrices.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def open_checkpoint(path: Path, *, device: str = "cpu", quantization: Quantization = "auto") -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder (config.json and safetensors) for running on `device`.

    A GGUF file runs as it is quantized: on a CPU from the memory map, without a copy (but for attn_q and
    attn_k of architecture llama, whose rows are reordered). A folder is quantized on load, one tensor at a
    time: "auto" is nf4 on CUDA and int8 on a CPU; see `quantize_matrix` for what each does.
    Raises ModelFileError or UnsupportedModelError, one sentence naming the file and the tensor or key.
    """
    if path.is_dir():
        scheme: Scheme = _default_scheme(device) if quantization == "auto" else quantization
        return _open_folder(path, torch.device(device), scheme)
    if path.suffix == ".safetensors":
        raise ModelFileError(f"{path} is one file of a model folder: give the folder, {path.parent}")
    if quantization != "auto":
        raise UnsupportedModelError(
            f"{path} is a GGUF file, quantized already: {quantization} is only for safetensors folders"
        )
    return _open_gguf(path, torch.device(device))


def _default_scheme(device: str) -> Scheme:
    return "nf4" if torch.device(device).type == "cuda" else "int8"


def _open_gguf(path: Path, device: torch.device) -> Checkpoint:
    from octavo.engine.tokenizer import TokenizerData

    file = GGUFFile(path)
    factors = _vector(file, _ROPE_FACTORS).flatten().tolist() if _ROPE_FACTORS in file.tensors else ()
    spec = ModelSpec.from_gguf(file.metadata, file.tensors, freq_factors=factors, path=path)
    check_tensors(path, spec, {name: info.shape for name, info in file.tensors.items()})
    heads = {"attn_q": spec.num_heads, "attn_k": spec.num_kv_heads} if spec.family == "llama" else {}
    matrices: dict[str, Weight] = {}
    vectors: dict[str, Tensor] = {}
    for name, shape in expected_tensors(spec):
        permuted_heads = heads.get(name.split(".")[-2])
        if len(shape) == 1:
            vector = _vector(file, name)
            vectors[name] = (unpermute_rows(vector, permuted_heads) if permuted_heads else vector).to(device)
        else:
            data = file.data(name)
            data = unpermute_rows(data, permuted_heads) if permuted_heads else data
            matrices[name] = BlockMatrix(file.tensors[name].format, (shape[0], shape[1]), data.to(device))
    return Checkpoint(path, spec, TokenizerData.from_gguf(file.metadata), matrices, vectors, file.give_back)


def _vector(file: GGUFFile, name: str) -> Tensor:
    """A copy of a tensor's values: float32."""
    return dequantize(file.data(name), file.tensors[name].format).clone()


def _open_folder(path: Path, device: torch.device, scheme: Scheme) -> Checkpoint:
    from octavo.engine.tokenizer import TokenizerData

    folder = SafetensorsFolder(path)
    spec = ModelSpec.from_hf_config(folder.config, path)
    check_tensors(path, spec, folder.shapes, hf_name)
    tokenizer = TokenizerData.from_folder(path)
    matrices: dict[str, Weight] = {}
    vectors: dict[str, Tensor] = {}
    for name, shape in expected_tensors(spec):
        tensor = folder.tensor(hf_name(name))
        if len(shape) == 1:
            vectors[name] = tensor.to(device, torch.float32, copy=True)
        else:
            matrices[name] = quantize_matrix(name, tensor, scheme, device)
    return Checkpoint(path, spec, tokenizer, matrices, vectors)


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
