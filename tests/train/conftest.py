"""Fixtures of the training tests: a small model, made once."""

from pathlib import Path

import pytest
import torch

from companyos.train.model.models import Learner, load
from tools.small_model import small_model

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a small untrained model."""
    return small_model(tmp_path_factory.mktemp("model") / "small", size=32, layers=2, vocabulary=768)


@pytest.fixture
def learner(folder: Path) -> Learner:
    torch.manual_seed(0)
    return load(str(folder), train="lora")
