"""Hugging Face folders: known pre-tokenizers take the fast path, others the library, with the same ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.tokenizer import Message, Tokenizer, TokenizerData

TEXTS = [
    "",
    "Hello, world! 123",
    "  def f():\n\treturn 'é'  ",
    "日本語 👩‍👩‍👧",
    "a<|im_end|><tool_call>b <|im_end|>  c",
]

Train = Callable[[str], tokenizers.Tokenizer]


def write(folder: Path, reference: tokenizers.Tokenizer | dict[str, Any], **files: Any) -> Path:
    text = json.dumps(reference) if isinstance(reference, dict) else reference.to_str()
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def sentencepiece_like(**pre: Any) -> tokenizers.Tokenizer:
    """A tokenizer of the kind that Llama 2 and Mistral folders hold, with every byte and a few merges."""
    control = ("<unk>", "<s>", "</s>")
    pieces = [*control, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefh", "▁a", "▁ab", "de"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = [("▁", "a"), ("▁a", "b"), ("d", "e")]
    model = models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    reference = tokenizers.Tokenizer(model)
    if "prepend_scheme" in pre:
        reference.pre_tokenizer = pre_tokenizers.Metaspace("▁", split=False, **pre)
    else:
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        reference.normalizer = normalizers.Sequence(steps)
    reference.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    reference.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return reference


def ids_of(reference: tokenizers.Tokenizer, text: str, *, special: bool) -> list[int]:
    reference.encode_special_tokens = not special
    return list(reference.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("text", TEXTS)
def test_a_known_pre_tokenizer_is_recognised(pre: str, train: Train, tmp_path: Path, text: str) -> None:
    data = TokenizerData.from_folder(write(tmp_path, train(pre)))
    assert (data.kind, data.pre) == ("bpe", pre)
    for special in (False, True):
        expected = ids_of(train(pre), text, special=special)
        assert Tokenizer(data).encode(text, special=special) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_another_pre_tokenizer_goes_through_the_library(train: Train, tmp_path: Path, text: str) -> None:
    reference = tokenizers.Tokenizer.from_str(train("gpt-2").to_str())
    reference.normalizer = normalizers.NFKC()
    data = TokenizerData.from_folder(write(tmp_path, reference))
    assert data.kind == "hf"
    for special in (False, True):
        assert Tokenizer(data).encode(text, special=special) == ids_of(reference, text, special=special)
    assert Tokenizer(data).decode(Tokenizer(data).encode(text)) == text


@pytest.mark.parametrize("pre", [{}, {"prepend_scheme": "first"}, {"prepend_scheme": "always"}])
@pytest.mark.parametrize("text", ["", "ab de", " ab", "  a\nb ", "é日</s>ab", "<s>ab</s>ab de"])
def test_sentencepiece_folders_match_the_library(pre: dict[str, str], text: str, tmp_path: Path) -> None:
    reference = sentencepiece_like(**pre)
    tokenizer = Tokenizer(TokenizerData.from_folder(write(tmp_path, reference)))
    assert tokenizer.encode(text) == ids_of(reference, text, special=False)
    assert tokenizer.encode(text, special=True) == ids_of(reference, text, special=True)
    ids = ids_of(reference, text, special=False)
    assert tokenizer.decode(ids) == reference.decode(ids)


def test_no_text_is_merged_into_a_control_token(tmp_path: Path) -> None:
    description = json.loads(sentencepiece_like().to_str())
    model = description["model"]
    model["vocab"] |= {"<": 900, "/": 901, "s": 902, ">": 903, "/s": 904, "/s>": 905}
    model["merges"] += [["/", "s"], ["/s", ">"], ["<", "/s>"]]
    tokenizer = Tokenizer(TokenizerData.from_folder(write(tmp_path, description)))
    assert tokenizer.encode("</s>")[-2:] == [900, 905]
    assert tokenizer.encode("</s>", special=True) == [2]


def test_the_ids_that_end_a_turn_come_from_every_file(train: Train, tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        train("smollm"),
        tokenizer_config={"eos_token": {"content": "a"}, "bos_token": "<|im_start|>", "add_bos_token": True},
        generation_config={"eos_token_id": [40, 41]},
        config={"eos_token_id": 42},
    )
    data = TokenizerData.from_folder(folder)
    a = train("smollm").token_to_id("a")
    assert (data.eos_id, data.bos_id, data.add_bos) == (a, 1, True)
    assert data.eos_ids == {0, 2, a, 40, 41, 42}


@pytest.mark.parametrize("place", ["file", "config", "list"])
def test_the_chat_template_is_found(train: Train, tmp_path: Path, place: str) -> None:
    template = "{% for m in messages %}{{ m.content }}!{% endfor %}"
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": template}]
    values = {"config": template, "list": named, "file": "unused"}
    folder = write(tmp_path, train("smollm"), tokenizer_config={"chat_template": values[place]})
    if place == "file":
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    tokenizer = Tokenizer(TokenizerData.from_folder(folder))
    assert tokenizer.decode(tokenizer.encode_chat([Message("user", "hi")])) == "hi!"


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"tokenizer\.json is missing"):
        TokenizerData.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelFileError, match="cannot be read"):
        TokenizerData.from_folder(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": None},
        {"model": {"type": "BPE", "vocab": {"a": -1}}},
        {"model": {"type": "BPE", "vocab": {"a": 1 << 40}}},
        {"added_tokens": [{"content": "x"}]},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}},
    ],
)
def test_a_tokenizer_file_of_another_shape_is_refused(train: Train, tmp_path: Path, changes: dict[str, Any]) -> None:
    description = json.loads(train("smollm").to_str()) | changes
    with pytest.raises(ModelFileError, match="download it again"):
        TokenizerData.from_folder(write(tmp_path, description))


def test_tokenizers_that_are_not_bpe_are_refused(tmp_path: Path) -> None:
    word_piece = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(UnsupportedModelError, match="WordPiece"):
        Tokenizer(TokenizerData.from_folder(write(tmp_path, word_piece)))
    unigram = tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0))
    with pytest.raises(UnsupportedModelError, match="no BPE vocabulary"):
        TokenizerData.from_folder(write(tmp_path, unigram))
    undecodable = sentencepiece_like()
    undecodable.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModelError, match="decoder"):
        Tokenizer(TokenizerData.from_folder(write(tmp_path, undecodable)))
