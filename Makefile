# Every target builds what it needs by itself on a fresh machine with Python (3.11 is what CI has) and a C compiler.
PYTHON ?= python3
TORCH ?= 2.13.0
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PEER_TORCH := build/torch-2.15.0

.PHONY: venv demo peers test test-slow test-peers test-gpu test-matrix bench bench-modelled lint clean

venv: $(VENV)/.done

# torch comes first and pinned: the package's own range would otherwise take the newest build, with CUDA.
$(VENV)/.done: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[demo,test,bench]'
	touch $@

demo: venv
	$(BIN)/python -m inductor_flydsl demo

test: venv
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

# The mutants of norm and TopK kernels need the peers' venv, which is below.
test-slow: venv $(PEERS)/.done
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m slow --ignore tests/test_mutation.py
	PEER_TORCH=$(abspath $(PEER_TORCH)) $(PEERS)/bin/python -m pytest -q -m slow tests/test_mutation.py

# Kernels that others wrote: Triton 3.9's, and those of torch 2.15.0, whose wheel is unpacked beside the project and never
# imported as torch. llvm-as-22 (Debian: llvm-22) makes the one device function that grouped kernels call.
$(PEERS)/.done: pyproject.toml Makefile
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -e '.[test,bench]' triton==3.9.0 uv
	rm -rf $(PEER_TORCH)
	$(PEERS)/bin/uv pip install --quiet --python $(PEERS)/bin/python --no-deps --target $(PEER_TORCH) torch==2.15.0
	rm -rf $(PEER_TORCH)/torch/lib
	touch $@

peers: $(PEERS)/.done

test-peers: peers
	PEER_TORCH=$(abspath $(PEER_TORCH)) $(PEERS)/bin/python -m pytest -q -n 2 --dist worksteal tests/peers tests/test_docs.py

# On any GPU that PyTorch and Triton can use, with the Python that has them: a stand-in takes our kernels' place.
GPU_PYTHON ?= python3

test-gpu:
	rm -rf build/gpu
	$(GPU_PYTHON) -m pip install --quiet --no-deps --target build/gpu .
	cd build/gpu && PYTHONPATH=$(abspath build/gpu) $(GPU_PYTHON) -m pytest -q -s -m gpu $(CURDIR)/tests/gpu

# torch 2.15.0 and 2.11.0 are CUDA builds of several GB each, and flydsl 0.4.2 stands for the older release.
test-matrix: venv
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/python tests/matrix.py

bench: venv
	$(BIN)/python -m inductor_flydsl bench simulator

# The suites of modelled times beside PyTorch's own kernels.
bench-modelled: peers
	for suite in dense mxfp grouped rms_norm topk; do \
		PEER_TORCH=$(abspath $(PEER_TORCH)) $(PEERS)/bin/python -m inductor_flydsl bench $$suite || exit 1; done

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/typed && mkdir -p build/typed
	cp -r inductor_flydsl build/typed/ && cp -r lowering templates benchmarks build/typed/inductor_flydsl/
	$(BIN)/mypy --cache-dir=/dev/null build/typed/inductor_flydsl

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info
