"""Tiny models for every test of the engine.

- `make_hf_folder(family, ...) -> Path`: a random transformers model saved as a safetensors folder.
- `make_gguf(folder, ...) -> Path`: such a folder written as a GGUF file, in the formats asked for.

Both are session-scoped factories, and both models carry the same small byte-level BPE vocabulary. Vectors
(norms, biases) are random too: left at their initial ones and zeros they would hide mistakes.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter

VOCAB_SIZE = 320
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
K_QUANTS = ("Q4_K", "Q5_K", "Q6_K")


def byte_level_vocabulary() -> tuple[list[str], list[str]]:
    """320 tokens (3 special, 256 bytes in GPT-2's printable spelling, 61 merged) and their 61 merges."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    pairs = [(spelling[ord(a)], spelling[ord(b)]) for a in " thrnsld" for b in "aeiouhtn" if a != b]
    merges = [f"{a} {b}" for a, b in pairs][: VOCAB_SIZE - 256 - len(SPECIAL_TOKENS)]
    tokens = [
        *SPECIAL_TOKENS,
        *(spelling[byte] for byte in range(256)),
        *(m.replace(" ", "") for m in merges),
    ]
    return tokens + [f"<|unused_{i}|>" for i in range(VOCAB_SIZE - len(tokens))], merges


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json with the small vocabulary and a ChatML template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, merges = byte_level_vocabulary()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="session")
def make_hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """make_hf_folder(family, *, rope_scaling=None, seed=0, dtype=..., max_shard_size=..., **config) -> Path.

    family: "llama", "mistral", "qwen2" or "qwen3". `config` overrides the configuration: 2 layers, hidden
    64, 4 heads, 2 KV heads, intermediate 96, vocabulary 320, 256 positions, no sliding window. Load the
    reference with `transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)`.
    """

    def make(
        family: str,
        *,
        rope_scaling: Mapping[str, Any] | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        max_shard_size: str = "1GB",
        **config: Any,
    ) -> Path:
        from transformers import AutoConfig, AutoModelForCausalLM

        settings: dict[str, Any] = {
            "num_hidden_layers": 2,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 96,
            "vocab_size": VOCAB_SIZE,
            "max_position_embeddings": 256,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default", **(rope_scaling or {})},
            "bos_token_id": None,
            "eos_token_id": 2,
            "pad_token_id": 0,
        }
        if family == "mistral":
            settings["sliding_window"] = None
        if family == "qwen3":
            settings["head_dim"] = 16
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **(settings | config)))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
                else:
                    parameter.normal_(std=0.12)
        folder = tmp_path_factory.mktemp(family)
        model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
        write_tokenizer(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def make_gguf(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """make_gguf(folder, formats="Q8_0", *, metadata={}, edit=None) -> Path of a GGUF file.

    folder: from make_hf_folder. Families llama and mistral are written as architecture llama, their q and
    k rows permuted as the public converter does. formats: a format's name for every matrix, or canonical
    tensor name -> format name, with "default" for the others. K formats need rows of 256 and get random
    blocks, since the gguf package cannot quantize to them: take the reference from the file.
    metadata: keys to add or to replace. edit(tensors): changes the float32 tensors (name -> array) before
    they are written.
    """

    def make(
        folder: Path,
        formats: str | Mapping[str, str] = "Q8_0",
        *,
        metadata: Mapping[str, Any] | None = None,
        edit: Callable[[dict[str, np.ndarray]], None] | None = None,
    ) -> Path:
        config = json.loads((folder / "config.json").read_text())
        family = config["model_type"]
        arch = "llama" if family == "mistral" else family
        tensors = gguf_tensors(folder, config, arch)
        if edit is not None:
            edit(tensors)
        chosen = {"default": formats} if isinstance(formats, str) else dict(formats)
        path = tmp_path_factory.mktemp("gguf") / "model.gguf"
        writer = GGUFWriter(path, arch)
        for key, value in (gguf_metadata(config, arch) | dict(metadata or {})).items():
            add_value(writer, key, value)
        rng = np.random.default_rng(0)
        for name, tensor in tensors.items():
            kind = chosen.get(name, chosen.get("default", "Q8_0")) if tensor.ndim == 2 else "F32"
            qtype = GGMLQuantizationType[kind]
            data = random_blocks(tensor.shape, qtype, rng) if kind in K_QUANTS else gguf.quants.quantize(tensor, qtype)
            writer.add_tensor(name, data, raw_dtype=qtype)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


def gguf_tensors(folder: Path, config: Mapping[str, Any], arch: str) -> dict[str, np.ndarray]:
    """The folder's tensors in float32 under their GGUF names; q and k permuted for architecture llama."""
    from safetensors.torch import load_file

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    tensors: dict[str, np.ndarray] = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            array = tensor.float().numpy()
            part = name.split(".")[-2]
            if arch == "llama" and part in heads:
                shape = (heads[part], 2, array.shape[0] // heads[part] // 2, *array.shape[1:])
                array = array.reshape(shape).swapaxes(1, 2).reshape(array.shape)
            tensors[names.get_name(name, try_suffixes=(".weight", ".bias"))] = array
    rope = config["rope_parameters"]
    if rope["rope_type"] == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(folder)
    return tensors


def llama3_factors(folder: Path) -> np.ndarray:
    """What divides each frequency, from transformers' own schedule."""
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = AutoConfig.from_pretrained(folder)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    head_dim = config.head_dim
    plain = config.rope_parameters["rope_theta"] ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    return (plain / scaled.double()).float().numpy()


def gguf_metadata(config: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """The metadata a converter writes, the small vocabulary included."""
    tokens, merges = byte_level_vocabulary()
    rope = config["rope_parameters"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    entries = {
        "general.name": f"tiny {arch}",
        f"{arch}.block_count": config["num_hidden_layers"],
        f"{arch}.context_length": config["max_position_embeddings"],
        f"{arch}.embedding_length": config["hidden_size"],
        f"{arch}.feed_forward_length": config["intermediate_size"],
        f"{arch}.attention.head_count": config["num_attention_heads"],
        f"{arch}.attention.head_count_kv": config["num_key_value_heads"],
        f"{arch}.attention.key_length": head_dim,
        f"{arch}.attention.value_length": head_dim,
        f"{arch}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{arch}.rope.freq_base": rope["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm" if arch == "llama" else "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token.startswith("<|") else 1 for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    if rope["rope_type"] in ("linear", "yarn"):
        entries[f"{arch}.rope.scaling.type"] = rope["rope_type"]
        entries[f"{arch}.rope.scaling.factor"] = float(rope["factor"])
    if rope["rope_type"] == "yarn":
        entries[f"{arch}.rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    return entries


def add_value(writer: GGUFWriter, key: str, value: Any) -> None:
    """Add a metadata entry with the value type converters use for such a value."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def random_blocks(shape: tuple[int, ...], qtype: GGMLQuantizationType, rng: np.random.Generator) -> np.ndarray:
    """Random quantized rows (uint8 [rows, row_bytes]) whose weights are of ordinary size."""
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    rows, cols = shape
    blocks = rng.integers(0, 256, (rows, cols // block_size, block_bytes), dtype=np.uint8)
    scale = np.frombuffer(np.float16(5e-5).tobytes(), np.uint8)
    if qtype == GGMLQuantizationType.Q6_K:
        blocks[..., -2:] = scale
    else:
        blocks[..., :2] = scale
        blocks[..., 2:4] = np.frombuffer(np.float16(4e-4).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)
