#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""How far counting goes on triples: cosine of TF-IDF vectors of character bigrams.

    tfidf_triples.py TRIPLES.jsonl

Each line is {"A": ..., "B": ..., "C": ...} and B is nearer to A. Nothing is trained; the weights of
bigrams come from the documents themselves, ln(documents / documents with it). Needs NumPy.
"""

import json
import sys
from collections import Counter

import numpy as np


def bigrams(text):
    return Counter(text[i : i + 2] for i in range(len(text) - 1))


def vectors(documents):
    """Rows of length 1: [documents, bigrams]."""
    counts = [bigrams(text) for text in documents]
    columns = {gram: n for n, gram in enumerate(sorted(set().union(*counts)))}
    table = np.zeros((len(documents), len(columns)))
    for row, count in enumerate(counts):
        for gram, times in count.items():
            table[row, columns[gram]] = times
    table *= np.log(len(documents) / (table > 0).sum(0))
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def main(path):
    with open(path, encoding="utf-8") as lines:
        triples = [json.loads(line) for line in lines if line.strip()]
    documents = sorted({triple[key] for triple in triples for key in "ABC"})
    numbers = {text: n for n, text in enumerate(documents)}
    table = vectors(documents)
    cosines = table @ table.T
    right = 0
    for triple in triples:
        a, b, c = (numbers[triple[key]] for key in "ABC")
        right += bool(cosines[a, b] > cosines[a, c])
    accuracy = right / len(triples)
    print(json.dumps({"triples": len(triples), "right": right, "accuracy": accuracy}))


if __name__ == "__main__":
    main(*sys.argv[1:])
