# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Serves a model folder with vLLM and writes the greedy tokens of three prompts as JSON:

    python serve.py MODEL OUT

In a process of its own, because vLLM loads plugins once."""

import json
import sys

from vllm import LLM, SamplingParams


def main() -> None:
    model, out = sys.argv[1:]
    llm = LLM(model=model, dtype="float32", enforce_eager=True, seed=0, max_model_len=1024)
    prompts = [
        " ".join(f"word{(step * i * i + i) % 250}" for i in range(length))
        for step, length in ((3, 5), (7, 60), (11, 400))
    ]
    sampling = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, logprobs=1)
    results = []
    for request in llm.generate(prompts, sampling):
        found = request.outputs[0]
        chosen = [
            step[token].logprob for step, token in zip(found.logprobs, found.token_ids, strict=True)
        ]
        results.append({"tokens": list(found.token_ids), "text": found.text, "logprobs": chosen})
    with open(out, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
