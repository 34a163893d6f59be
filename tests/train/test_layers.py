"""Our layers are the model's: the same hidden states, and the same gradients where adapters sit in them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from companyos.train.model.layers import fits, last_hidden_states
from tests.train.tiny_model import tiny_gpt2, tiny_llama, tiny_qwen

torch.set_num_threads(1)
TOKENS = torch.arange(30).view(2, 15) * 7 % 250
ROWS = TOKENS.tolist()
Maker = Callable[[], Any]


def adapted(make_model: Maker) -> Any:
    torch.manual_seed(1)
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    return get_peft_model(make_model(), config)


def theirs(model: Any) -> Any:
    return model(input_ids=TOKENS, output_hidden_states=True).hidden_states[-1].flatten(0, 1)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_hidden_states_are_those_of_transformers(make_model: Maker) -> None:
    for model in (make_model(), adapted(make_model)):
        assert fits(model)
        assert torch.allclose(last_hidden_states(model, ROWS), theirs(model), atol=1e-4)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_adapters_get_the_gradients_that_they_get_beside_the_weights(make_model: Maker) -> None:
    model = adapted(make_model)
    ours, others = (
        torch.autograd.grad(hidden[..., :9].sum(), [weight for weight in model.parameters() if weight.requires_grad])
        for hidden in (last_hidden_states(model, ROWS), theirs(model))
    )
    assert all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in zip(ours, others, strict=True))
    assert any(one.abs().max() > 1 for one in ours)


def test_a_model_of_another_shape_goes_its_own_way() -> None:
    model = tiny_gpt2()
    assert not fits(model)
    assert torch.equal(last_hidden_states(model, ROWS), theirs(model))


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_gpt2])
def test_rows_of_other_lengths_beside_it_change_nothing_for_a_row(make_model: Maker) -> None:
    model = make_model()
    long, short = ROWS[0], ROWS[1][:6]
    together = last_hidden_states(model, [short, long])
    alone = torch.cat([last_hidden_states(model, [row]) for row in (short, long)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_what_is_kept_to_learn_from_grows_with_a_row_and_not_with_its_square() -> None:
    model = adapted(tiny_llama)

    def kept(length: int) -> int:
        sizes: dict[int, int] = {}

        def note(tensor: Any) -> Any:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            assert last_hidden_states(model, [[7] * length]).requires_grad
        return sum(sizes.values())

    short, long, longer = (kept(length) for length in (256, 512, 1024))
    assert longer - long <= 2.1 * (long - short)
