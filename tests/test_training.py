"""A Llama model's training step, forward, backward and optimizer, with all its products on our kernels."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch

import inductor_flydsl
from inductor_flydsl import config, demo

LAYERS = 1
LINEARS = 7 * LAYERS + 1

transformers = pytest.importorskip("transformers", reason="the demo's extra, transformers, is not installed")


def loss_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(tokens, labels=tokens, use_cache=False).loss
    return loss


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.double() for name, parameter in model.named_parameters()}  # type: ignore[union-attr]


def distance(have: torch.Tensor, want: torch.Tensor) -> float:
    return float((have - want).norm() / want.norm())


def test_a_training_step_of_llama(counters: Counter[str]) -> None:
    """Gradients as close to fp32's as PyTorch's own bf16 ones; 3 products per linear layer, none declined."""
    model = demo._llama(transformers, LAYERS).train()
    tokens = torch.randint(0, model.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(1))
    wide, plain = copy.deepcopy(model).float(), copy.deepcopy(model)
    for each in (wide, plain):
        loss_of(each, tokens).backward()
    exact, eager = gradients(wide), gradients(plain)
    with inductor_flydsl.simulate(), config.patch(force=True):
        fast = torch.compile(model, backend="flydsl")
        loss = loss_of(fast, tokens)
        loss.backward()
        assert counters["chosen:gemm"] == counters["launched:gemm"] == 3 * LINEARS
        assert not counters["declined:gemm"] and not counters["realigned:gemm"]
        for name, gradient in gradients(model).items():
            assert distance(gradient, exact[name]) <= 1.5 * distance(eager[name], exact[name]) + 1e-3, name
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        losses = [loss.item()]
        for _ in range(20):
            optimizer.step()
            optimizer.zero_grad()
            loss = loss_of(fast, tokens)
            loss.backward()
            losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0], losses
    assert counters["launched:gemm"] == 21 * 3 * LINEARS
    assert counters["compiled:gemm"] <= counters["chosen:gemm"], "nothing is compiled after the first step"
