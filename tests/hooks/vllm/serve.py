# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Serves a model folder with vLLM and writes the greedy tokens of three prompts as JSON:

    python serve.py MODEL OUT [LENGTH]

LENGTH: one prompt of so many tokens instead, and the logprobs of the likeliest next ones.

In a process of its own, because vLLM loads plugins once."""

import json
import sys

from vllm import LLM, SamplingParams

from model import long_prompt


def next_token(model: str, length: int) -> dict[int, float]:
    llm = LLM(model=model, dtype="float32", enforce_eager=True, seed=0, max_model_len=length + 1,
              max_logprobs=250)  # fmt: skip
    sampling = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, logprobs=250)
    (request,) = llm.generate([{"prompt_token_ids": long_prompt(length)}], sampling)
    (step,) = request.outputs[0].logprobs
    return {token: found.logprob for token, found in step.items()}


def main() -> None:
    model, out, *length = sys.argv[1:]
    if length:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(next_token(model, int(length[0])), file)
        return
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
