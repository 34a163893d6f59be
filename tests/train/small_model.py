"""A small model with random weights, and with a tokenizer and a chat template that TRL knows."""

import json
from pathlib import Path

import torch
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import get_json_schema

from companyos.company import TOOLBOX
from companyos.env.chat import messages
from companyos.integrations.trl_env import CompanyOS
from tests.helpers import played

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOOL_CALL_TOKENS = ["<tool_call>", "</tool_call>"]


def small_model(folder: Path) -> Path:
    """Write a small model into a folder, in the form of a downloaded one. Return the folder."""
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def template(name: str = "qwen2_5") -> str:
    """Return a chat template that TRL contains. TRL recognises a template by its exact text."""
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text("utf-8")


def _tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that is trained on some episodes.

    The whole description of a tool is one token; otherwise prompts would have 4,000 tokens.
    """
    episode = CompanyOS()
    tools = [get_json_schema(getattr(episode, schema["function"]["name"])) for schema in TOOLBOX.schemas]
    transcripts = [played("expert", seed, 0.0).transcript() for seed in range(8)]
    texts = [message["content"] for transcript in transcripts for message in messages(transcript)]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=3000, special_tokens=SPECIAL_TOKENS, initial_alphabet=alphabet)
    )
    backend.add_tokens([AddedToken(text, normalized=False) for text in (*TOOL_CALL_TOKENS, *map(json.dumps, tools))])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template()
    )
