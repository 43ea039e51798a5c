"""Transformers of the kinds that users ask for, small, from configs, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.kit.torch.vision import load_torchvision

load_torchvision()  # transformers imports it where it is installed
import transformers as hf  # noqa: E402

VOCABULARY = 256


@dataclass(frozen=True)
class Example:
    """A model of one tensor to one tensor, an input, and the dimension of it that may change."""

    model: Any
    input: Any
    dynamic: int | None = None
    """None: every size is as it is."""


class _Logits(torch.nn.Module):
    """A model that takes one tensor and gives one: logits, or the last hidden state."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input: Any) -> Any:
        options = {"use_cache": False} if hasattr(self.inner.config, "use_cache") else {}
        found = self.inner(input, **options)
        return found.logits if hasattr(found, "logits") else found.last_hidden_state


def _tokens(length: int = 12) -> Any:
    return torch.randint(0, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(1))


_SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128,
}  # fmt: skip
_DISTILBERT = {"vocab_size": VOCABULARY, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
_GPT2 = {
    "vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
_T5 = {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
_DECODER = _SMALL | {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128}


def _text(model: Any, symbolic: bool) -> Example:
    return Example(_Logits(model).eval(), _tokens(), 1 if symbolic else None)


def _seeded(make: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    return make()


MODELS: dict[str, Callable[[bool], Example]] = {
    "bert": lambda s: _text(_seeded(lambda: hf.BertModel(hf.BertConfig(**_SMALL))), s),
    "distilbert": lambda s: _text(_seeded(lambda: hf.DistilBertModel(hf.DistilBertConfig(**_DISTILBERT))), s),
    "roberta": lambda s: _text(_seeded(lambda: hf.RobertaModel(hf.RobertaConfig(**_SMALL))), s),
    "gpt2": lambda s: _text(_seeded(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2))), s),
    "llama": lambda s: _text(_seeded(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_DECODER))), s),
    "mistral": lambda s: _text(_seeded(lambda: hf.MistralForCausalLM(hf.MistralConfig(**_DECODER))), s),
    "qwen3": lambda s: _text(_seeded(lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_DECODER))), s),
    "gemma2": lambda s: _text(_seeded(lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_DECODER))), s),
    "t5_encoder": lambda s: _text(_seeded(lambda: hf.T5EncoderModel(hf.T5Config(**_T5))), s),
    "whisper_encoder": lambda s: _whisper(),
    "vit": lambda s: _vit(),
}

OF_ONE_SIZE = ("whisper_encoder", "vit")
"""Models of which no size may change."""


def _whisper() -> Example:
    config = hf.WhisperConfig(
        vocab_size=VOCABULARY, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128,
        num_mel_bins=16, max_source_positions=50, pad_token_id=0, decoder_start_token_id=1,
    )  # fmt: skip
    model = _seeded(lambda: hf.models.whisper.modeling_whisper.WhisperEncoder(config))
    return Example(_Logits(model).eval(), torch.randn(1, 16, 100))


def _vit() -> Example:
    small = {key: value for key, value in _SMALL.items() if key != "vocab_size"}
    model = _seeded(lambda: hf.ViTModel(hf.ViTConfig(**small, image_size=32, patch_size=8)))
    return Example(_Logits(model).eval(), torch.randn(1, 3, 32, 32))


def encoder() -> tuple[Any, tuple[Any, ...]]:
    """BERT-base, and a sequence of 128 tokens."""
    model = _seeded(lambda: hf.BertModel(hf.BertConfig()))
    return _Logits(model).eval(), (_tokens(128),)


def decoder() -> tuple[Any, tuple[Any, ...]]:
    """A small Llama, and a sequence."""
    example = MODELS["llama"](True)
    return example.model, (example.input,)
