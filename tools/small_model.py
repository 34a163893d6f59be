"""Make a language model with a million random weights, for trying a whole training run without a GPU.

    python -m tools.small_model DIR

Its tokenizer is trained on some episodes of the train split, so that texts have about as many tokens as with real models.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from companyos.agents import make as make_agent
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.families import STARTER_FAMILIES
from companyos.train.data.script import opening, reply_text, turn_text

VOCABULARY = 2048
_EPISODES = 8  # of each family


def small_model(folder: Path, size: int = 128, layers: int = 4, vocabulary: int = VOCABULARY, seed: int = 0) -> Path:
    """Write the model and its tokenizer to a folder, in the format of a downloaded model."""
    tokenizer = _tokenizer(vocabulary)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=size,
        intermediate_size=size * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    digits, letters = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.pre_tokenizer = pre_tokenizers.Sequence([digits, letters])
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        _texts(), trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=raw)


def _texts() -> Iterator[str]:
    for name in STARTER_FAMILIES:
        for seed in range(_EPISODES):
            env, agent = make(name, seed=seed, chaos=0.5), make_agent("expert")
            obs = env.reset()
            yield opening(obs)
            while not obs.done:
                call = agent.act(obs)
                obs = env.step(call)
                yield turn_text(write_line(call)) + reply_text(obs)


if __name__ == "__main__":
    print(f"Written to {small_model(Path(sys.argv[1]))}.")
