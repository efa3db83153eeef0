# Shortcuts for CMake's presets and the scripts. Each target first installs the packages that it needs
# (scripts/bootstrap.sh), on Debian 12 and Ubuntu 24.04.

.DEFAULT_GOAL := help
.PHONY: help run build test check bench explorer lint format hooks asan tsan fuzz cross wheel install install-roformer \
  uninstall deb clean

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
# The CUDA engine of make build, install and deb: AUTO, if there is a CUDA compiler; ON or OFF. Not from the environment,
# where CUDA may be the folder of a toolkit.
CUDA := AUTO
# `make run`, `make build` and `make bench` configure a new build folder without tests and benchmarks. All use
# the same settings of the compiler, as `make test` does, so that each reuses the objects of the others.
LEAN := $(if $(wildcard build/build.ninja),,-DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
  -DROTARY_UNITY_BUILD=ON $(if $(CI),-DROTARY_WARNINGS_AS_ERRORS=ON))
# The command rotary has no kernels for a GPU: do not even look for a CUDA compiler.
LEAN_COMMAND := $(if $(LEAN),$(LEAN) -DROTARY_CUDA=OFF)
MODEL ?= examples/models/llama-3.1-8b.json

help: ## List the targets
	@echo 'rotary: rotary position embeddings. make <target>:'
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build the command and show the rotation of a model (MODEL=path to another)
	@scripts/bootstrap.sh run
	@echo 'Building the command rotary ...'
	@scripts/build.sh default $(LEAN_COMMAND) rotary_cli
	@printf '\n$$ build/bin/rotary inspect $(MODEL)\n'
	@build/bin/rotary inspect $(MODEL)
	@echo
	@echo 'This is how the model rotates its queries and keys, read from its config.json alone.'
	@echo 'Next: build/bin/rotary --help, or make run MODEL=path/to/config.json (or a .gguf file).'

build: ## Build the library, the PyTorch operators, the commands rotary and roformer, the examples
	@scripts/bootstrap.sh build
	@scripts/venv.sh
	@echo 'Building ...'
	@scripts/build.sh default $(LEAN) -DROTARY_CUDA=$(CUDA) -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
	  -DROTARY_PYTHON=$(CURDIR)/.venv/bin/python
	@echo 'Built: build/librotary.*, build/pytorch/librotary_torch.so, build/transformer/librotary_transformer.so, build/bin/rotary, build/bin/roformer'

test: ## Build all parts and run every test that a change must pass
	@scripts/test.sh

check: ## make test, then lint, packages, CUDA compiled, sanitizers, fuzzing, the other architecture
	@scripts/check.sh

bench: ## Measure rotation against a copy of the same bytes; results go to bench/results
	@scripts/bootstrap.sh bench
	@scripts/build.sh default $(LEAN_COMMAND) rotary_cli
	@scripts/bench.sh

explorer: ## Build the explorer page, docs/explorer/index.html (emscripten)
	@scripts/bootstrap.sh explorer
	@scripts/explorer.sh

lint: ## Check format, scripts and sources (clang-format, shellcheck, clang-tidy)
	@scripts/bootstrap.sh lint
	@scripts/venv.sh
	@scripts/lint.sh

format: ## Format the sources in place
	@scripts/venv.sh
	@scripts/format.sh

hooks: ## Test the hooks into other projects with those projects from PyPI (HOOK=name for one)
	@scripts/bootstrap.sh build
	@scripts/bootstrap.sh wheel
	@scripts/venv.sh
	@scripts/build.sh default -DROTARY_BUILD_PYTHON=ON -DROTARY_PYTHON=$(CURDIR)/.venv/bin/python rotary_cli rotary_python rotary_onnx
	@scripts/hooks.sh $(HOOK)

asan tsan: ## Run the tests under the address or thread sanitizer
	@scripts/bootstrap.sh sanitize
	@scripts/build.sh $@
	@ctest --preset $@

fuzz: ## Run each fuzz target for FUZZ_SECONDS (60)
	@scripts/bootstrap.sh sanitize
	@scripts/build.sh fuzz -DROTARY_FUZZ_SECONDS=$(FUZZ_SECONDS) -DROTARY_FUZZ_SEED=0
	@ctest --preset fuzz

cross: ## Build the library for the other architecture and run its tests in an emulator
	@scripts/cross.sh

wheel: ## Build the Python package as a manylinux wheel, into build/wheelhouse
	@scripts/bootstrap.sh wheel
	@scripts/venv.sh
	@scripts/wheel.sh

install: ## Install library, C API, headers and command to PREFIX (/usr/local); DESTDIR and CUDA=OFF work
	@scripts/bootstrap.sh run
	@scripts/build.sh default $(LEAN) -DROTARY_CUDA=$(CUDA) rotary rotary_c rotary_cli
	@scripts/install.sh install "$(PREFIX)" library command

install-roformer: build ## Likewise, with the command roformer, which keeps using the PyTorch of make build
	@scripts/install.sh install "$(PREFIX)" library command torch roformer

uninstall: ## Remove from PREFIX what was installed there
	@scripts/install.sh uninstall "$(PREFIX)"

deb: ## Build a Debian package of library, C API, headers and command in build/packages
	@scripts/bootstrap.sh deb
	@scripts/build.sh default $(LEAN) -DROTARY_CUDA=$(CUDA) rotary rotary_c rotary_cli
	@cd build && cpack -G DEB -B packages

clean: ## Remove the build folder (not .venv)
	@rm -rf build
