"""Tiny models: language models built on the spot, whose tokens are bytes."""

import random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config
from transformers import Qwen2ForCausalLM as Qwen2

_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
_SHAPE = {
    "vocab_size": len(_LETTERS),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def tiny_tokenizer() -> Any:
    """A token a byte."""
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(_LETTERS)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def tiny_llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**_SHAPE, tie_word_embeddings=True)).eval()


def tiny_qwen(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    model = Qwen2(Qwen2Config(**_SHAPE))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):  # they begin at nothing, and would not be missed
                weight.normal_()
    return model.eval()


def tiny_gpt2(seed: int = 0) -> Any:
    """One that no decoder fits."""
    torch.manual_seed(seed)
    sizes = {"n_positions": 4096, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(vocab_size=len(_LETTERS), bos_token_id=0, eos_token_id=0, **sizes)).eval()


LINES = (" my_changes", " inbox", " wait 60", " get_ticket T-1", " list", " no")


def schooled(model: Any, steps: int = 60) -> Any:
    """A model that says one of some lines, whatever it has heard: calls that are, calls that fail, and none."""
    tokenizer, luck = tiny_tokenizer(), random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        texts = [">".join(f"{luck.choice(LINES)}\n" for _ in range(12)) for _ in range(8)]
        tokens = [tokenizer.encode(">" + text) for text in texts]
        width = min(map(len, tokens))
        batch = torch.tensor([one[:width] for one in tokens])
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()
