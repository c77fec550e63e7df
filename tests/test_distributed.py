"""Two ranks of a training step, on gloo: DDP and FSDP around a compiled model with our kernels."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

RANK = """
import os, sys, torch, torch.distributed as dist, inductor_flydsl
from inductor_flydsl import config
how, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
from torch.nn.functional import linear, relu
def two(x, w1, b1, w2, b2):
    return linear(relu(linear(x, w1, b1)), w2, b2)
class Block(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        layers = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)
        self.weights = torch.nn.ParameterList([each for layer in layers for each in layer.parameters()])
    def forward(self, x):
        return self.function(x, *self.weights)
wide, model = Block(two).double(), Block(torch.compile(two, backend="flydsl")).bfloat16()
with torch.no_grad():
    for mine, exact in zip(model.parameters(), wide.parameters(), strict=True):
        exact.copy_(mine)
batches = torch.randn(2, 24, 64).bfloat16()
sum(wide(batch.double()).square().mean() / 2 for batch in batches).backward()
with inductor_flydsl.simulate(), config.patch(force=True):
    if how == "ddp":
        step = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        step = fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    step(batches[rank]).square().mean().backward()
for mine, exact in zip(model.parameters(), wide.parameters(), strict=True):
    gradient = mine.grad.full_tensor() if how == "fsdp" else mine.grad
    error = (gradient.double() - exact.grad).norm() / exact.grad.norm()
    assert error < 0.02, error
counters = torch._dynamo.utils.counters["inductor_flydsl"]
print("launched", counters["launched:gemm"], "declined", counters["declined:gemm"])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_ranks(how: str, python: Callable[..., subprocess.CompletedProcess[str]], unused_port: int) -> None:
    ranks = (
        "import subprocess, sys\n"
        f"ranks = [subprocess.Popen([sys.executable, '-c', {RANK!r}, {how!r}, str(rank), '{unused_port}'],"
        " stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in (0, 1)]\n"
        "said = [rank.communicate()[0] for rank in ranks]\n"
        "print('\\n'.join(said))\n"
        "sys.exit(max(abs(rank.returncode) for rank in ranks))"
    )
    done = python(ranks)
    counted = [line.split() for line in done.stdout.splitlines() if line.startswith("launched")]
    assert len(counted) == 2, done.stdout
    # Two products forward; two gradients of weights and one of what lies between.
    assert all(line[1] == "5" and line[3] == "0" for line in counted), done.stdout


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
