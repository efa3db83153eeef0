# The front door. Everything here is one line over CMake's presets and the scripts; a target
# installs what it needs first (scripts/bootstrap.sh), on Debian 12 and Ubuntu 24.04.

.DEFAULT_GOAL := help
.PHONY: help run build test bench lint format asan tsan fuzz install clean

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
# What `make run` and `make build` leave out when they are the first to configure.
LEAN := $(if $(wildcard build/build.ninja),,-DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
  -DROTARY_UNITY_BUILD=ON)
MODEL ?= examples/models/llama-3.1-8b.json

help: ## List the targets
	@echo 'rotary: rotary position embeddings. make <target>:'
	@awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build the command and show the rotation of a model (MODEL=path to another)
	@scripts/bootstrap.sh run
	@echo 'Building the command rotary ...'
	@scripts/build.sh default $(LEAN) rotary_cli
	@printf '\n$$ build/bin/rotary inspect $(MODEL)\n'
	@build/bin/rotary inspect $(MODEL)
	@echo
	@echo 'That is how the model turns its queries and keys, read from its config.json alone.'
	@echo 'Next: build/bin/rotary --help, or make run MODEL=path/to/config.json (or a .gguf file).'

build: ## Build the library, the PyTorch operators, the commands rotary and roformer, the examples
	@scripts/bootstrap.sh build
	@scripts/venv.sh
	@echo 'Building ...'
	@scripts/build.sh default $(LEAN) -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
	  -DROTARY_PYTHON=$(CURDIR)/.venv/bin/python
	@echo 'Built: build/librotary.*, build/torch_ops/librotary_torch.so, build/bin/rotary, build/bin/roformer'

test: ## Build everything and run all tests, sanitizers and a short fuzz run
	@scripts/test.sh

bench: ## Measure rotation against copying the same bytes; kept in bench/results
	@scripts/bootstrap.sh bench
	@scripts/build.sh default -DROTARY_BUILD_BENCHMARKS=ON bench_rotate rotary_cli
	@scripts/bench.sh

lint: ## Check format, scripts and sources (clang-format, shellcheck, clang-tidy)
	@scripts/bootstrap.sh lint
	@scripts/venv.sh
	@cmake --preset default -DROTARY_BUILD_TESTS=ON -DROTARY_BUILD_BENCHMARKS=ON \
	  -DROTARY_BUILD_ROFORMER=ON -DROTARY_UNITY_BUILD=OFF >/dev/null
	@scripts/lint.sh

format: ## Format the sources in place
	@scripts/venv.sh
	@scripts/format.sh

asan tsan: ## Run the tests under the address or thread sanitizer
	@scripts/bootstrap.sh test
	@scripts/build.sh $@
	@ctest --preset $@

fuzz: ## Run each fuzz target for FUZZ_SECONDS (60)
	@scripts/bootstrap.sh test
	@scripts/build.sh fuzz -DROTARY_FUZZ_SECONDS=$(FUZZ_SECONDS) -DROTARY_FUZZ_SEED=0
	@ctest --preset fuzz

install: build ## Install library, headers and command to PREFIX (/usr/local)
	@cmake --install build --prefix "$(PREFIX)"

clean: ## Remove what was built (not .venv)
	@rm -rf build
