"""A small model: built on the spot, of random weights, with a tokenizer and a chat template that TRL knows."""

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

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = ["<tool_call>", "</tool_call>"]


def small_model(folder: Path) -> Path:
    """A folder that holds one, as if it had been downloaded."""
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
    """A chat template as TRL ships it: it knows them by their exact text."""
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text("utf-8")


def _tokenizer() -> PreTrainedTokenizerFast:
    """It has read some episodes. Each tool, with all that is said of it, is one word: else prompts would be 4,000 long."""
    episode = CompanyOS()
    tools = [get_json_schema(getattr(episode, schema["function"]["name"])) for schema in TOOLBOX.schemas]
    said = [one["content"] for seed in range(8) for one in messages(played("expert", seed, 0.0).transcript())]
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(said, trainers.BpeTrainer(vocab_size=3000, special_tokens=SPECIAL, initial_alphabet=alphabet))
    raw.add_tokens([AddedToken(text, normalized=False) for text in (*WORDS, *map(json.dumps, tools))])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template()
    )
