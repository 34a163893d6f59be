"""Our layers compute the hidden states of transformers, and the same gradients for adapters."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from companyos.train.model.layers import hidden_states_of_rows, is_supported
from tests.train.tiny_model import tiny_gpt2, tiny_llama, tiny_qwen

torch.set_num_threads(1)
TOKENS = torch.arange(30).view(2, 15) * 7 % 250
ROWS = TOKENS.tolist()
Maker = Callable[[], Any]


def adapted(make_model: Maker) -> Any:
    torch.manual_seed(1)
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    return get_peft_model(make_model(), config)


def states_by_transformers(model: Any) -> Any:
    return model(input_ids=TOKENS, output_hidden_states=True).hidden_states[-1].flatten(0, 1)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_hidden_states_are_those_of_transformers(make_model: Maker) -> None:
    for model in (make_model(), adapted(make_model)):
        assert is_supported(model)
        assert torch.allclose(hidden_states_of_rows(model, ROWS), states_by_transformers(model), atol=1e-4)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_adapters_get_the_gradients_that_transformers_computes(make_model: Maker) -> None:
    model = adapted(make_model)
    gradients, expected = (
        torch.autograd.grad(hidden[..., :9].sum(), [weight for weight in model.parameters() if weight.requires_grad])
        for hidden in (hidden_states_of_rows(model, ROWS), states_by_transformers(model))
    )
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(gradients, expected, strict=True))
    assert any(gradient.abs().max() > 1 for gradient in gradients)


def test_an_unsupported_model_uses_its_own_forward_pass() -> None:
    model = tiny_gpt2()
    assert not is_supported(model)
    assert torch.equal(hidden_states_of_rows(model, ROWS), states_by_transformers(model))


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_gpt2])
def test_the_states_of_a_row_do_not_depend_on_other_rows(make_model: Maker) -> None:
    model = make_model()
    long, short = ROWS[0], ROWS[1][:6]
    together = hidden_states_of_rows(model, [short, long])
    alone = torch.cat([hidden_states_of_rows(model, [row]) for row in (short, long)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_memory_for_gradients_grows_linearly_with_the_length_of_a_row() -> None:
    model = adapted(tiny_llama)

    def saved_bytes(length: int) -> int:
        sizes: dict[int, int] = {}

        def record(tensor: Any) -> Any:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
            assert hidden_states_of_rows(model, [[7] * length]).requires_grad
        return sum(sizes.values())

    short, long, longer = (saved_bytes(length) for length in (256, 512, 1024))
    assert longer - long <= 2.1 * (long - short)
