"""Tiny language models with random weights. Their tokens are bytes and a few whole calls."""

import random
import string
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config
from transformers import Qwen2ForCausalLM as Qwen2

from companyos.train.model.models import Learner

_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
_CALLS = (
    " my_changes",
    " wait 60",
    " get_ticket T-1",
    " no",
)  # two that succeed, one that is refused, and one that is not a call
_REPLY_LETTERS = string.ascii_letters + string.digits
_VOCABULARY_SIZE = len(_LETTERS) + len(_CALLS)
_CONFIG = {
    "vocab_size": _VOCABULARY_SIZE,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.2,  # with the default, all tokens would be about equally likely
}


def tiny_tokenizer() -> Any:
    backend = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(_LETTERS)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(list(_CALLS))
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def tiny_llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**_CONFIG, tie_word_embeddings=True)).eval()


def tiny_qwen(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    model = Qwen2(Qwen2Config(**_CONFIG))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):  # otherwise they are 0, and a test would not notice that they are missing
                weight.normal_()
    return model.eval()


def tiny_gpt2(seed: int = 0) -> Any:
    """Return a model that `Decoder` does not support."""
    torch.manual_seed(seed)
    sizes = {"n_positions": 4096, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(vocab_size=_VOCABULARY_SIZE, bos_token_id=0, eos_token_id=0, **sizes)).eval()


def learner_of(model: Any) -> Learner:
    return Learner(model, tiny_tokenizer(), "tiny", limit=1024)


@cache
def _trained_weights() -> Any:
    model, tokenizer, rng = tiny_llama(), tiny_tokenizer(), random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        texts = ("".join(f"{rng.choice(_REPLY_LETTERS)}\n>{rng.choice(_CALLS)}\n" for _ in range(20)) for _ in range(8))
        batch = torch.tensor([tokenizer.encode(text) for text in texts])
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def trained_llama() -> Any:
    """Return a Llama that mostly writes one of the whole calls, after any reply."""
    model = tiny_llama()
    model.load_state_dict(_trained_weights())
    return model
