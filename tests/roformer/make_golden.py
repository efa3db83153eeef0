# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes golden/: what jieba and transformers make of a few hundred lines.

    pip install jieba==0.42.1 rjieba==0.2.2 transformers==5.17.0
    python make_golden.py VOCABULARY DICTIONARY

VOCABULARY is the vocab.txt of chinese_roformer_base, DICTIONARY jieba's dict.txt. The lines are
those of golden/texts.json, and others drawn from the dictionary and from many scripts. The
vocabulary is copied. Of the dictionary only the words that stand in a line (as it is, or
normalised) are kept, and one more that can stand in none holds the frequency of the others: the
cuts of these lines are those of the whole dictionary, because a cut depends on the words found in
the line and on the sum of all frequencies alone.
"""

import json
import logging
import pathlib
import random
import shutil
import sys

import jieba
import transformers
from tokenizers.normalizers import BertNormalizer

HERE = pathlib.Path(__file__).resolve().parent / "golden"


def generated(words):
    """Lines of words of the dictionary, of characters of many scripts, and of both."""
    draw = random.Random(7)
    blocks = [
        (0x20, 0x7F),
        (0xA0, 0x24F),
        (0x300, 0x36F),
        (0x370, 0x58F),
        (0x590, 0x6FF),
        (0x900, 0xDFF),
        (0xE00, 0xE7F),
        (0x1E00, 0x1FFF),
        (0x2000, 0x206F),
        (0x2100, 0x27BF),
        (0x3000, 0x30FF),
        (0x3400, 0x34FF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0xF900, 0xFAD9),
        (0xFF00, 0xFFEF),
        (0x1F300, 0x1F64F),
        (0x20000, 0x200FF),
    ]
    common = [w for w, f in words if f >= 500 and len(w) > 1]
    rare = [w for w, f in words if f < 500]
    han = [w for w, f in words if f >= 2000 and len(w) == 1]
    for i in range(200):
        parts = []
        for _ in range(draw.randint(3, 14)):
            kind = draw.random()
            if kind < 0.45:
                parts.append(draw.choice(common))
            elif kind < 0.6:
                parts.append(draw.choice(rare))
            elif kind < 0.8:
                parts.append(draw.choice(han))
            elif kind < 0.9:
                parts.append(draw.choice("\uff0c\u3002 \u3001\uff01A9z.%-"))
            elif i % 2:
                first, last = draw.choice(blocks)
                parts.append(
                    "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 4)))
                )
        yield "".join(parts)


def byte_spans(text, offsets):
    places = [0]
    for c in text:
        places.append(places[-1] + len(c.encode()))
    return [places[p] for span in offsets for p in span]


def main(vocabulary, dictionary):
    lines_of_dictionary = pathlib.Path(dictionary).read_text("utf-8").splitlines()
    entries = [(line.split(" ")[0], int(line.split(" ")[1])) for line in lines_of_dictionary]
    given = json.loads((HERE / "texts.json").read_text("utf-8"))
    texts = given["lines"] + list(generated(entries))

    jieba.setLogLevel(logging.ERROR)
    jieba.set_dictionary(dictionary)
    jieba.initialize()
    tokens = pathlib.Path(vocabulary).read_text("utf-8").split("\n")[:-1]
    numbers = {token: i for i, token in enumerate(tokens)}
    roformer = transformers.RoFormerTokenizer(vocab=dict(numbers))
    bert = transformers.BertTokenizer(vocab=dict(numbers))
    normal = BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=True, lowercase=True
    )

    HERE.mkdir(exist_ok=True)
    with open(HERE / "lines.jsonl", "w", encoding="utf-8") as out:
        for text in texts:
            row = {"text": text, "words": list(jieba.cut(text, HMM=False))}
            for name, tokenizer in (("roformer", roformer), ("bert", bert)):
                done = tokenizer._tokenizer.encode(text, add_special_tokens=False)
                row[name] = {"ids": done.ids, "spans": byte_spans(text, done.offsets)}
            out.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")
    with open(HERE / "pairs.jsonl", "w", encoding="utf-8") as out:
        for a, b, limit in given["pairs"]:
            done = roformer(
                a,
                b,
                truncation="longest_first" if limit else False,
                max_length=limit or None,
                return_token_type_ids=True,
            )
            row = {
                "a": a,
                "b": b,
                "max_length": limit,
                "ids": done["input_ids"],
                "types": done["token_type_ids"],
            }
            out.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")

    texts += [text for a, b, _ in given["pairs"] for text in (a, b or "")]
    everything = "\n".join(texts + [normal.normalize_str(text) for text in texts])
    kept = [(w, f) for w, f in entries if w in everything]
    others = sum(f for _, f in entries) - sum(f for _, f in kept)
    with open(HERE / "dict.txt", "w", encoding="utf-8") as out:
        out.writelines(f"{w} {f}\n" for w, f in [*kept, ("\u3013", others)])
    shutil.copyfile(vocabulary, HERE / "vocab.txt")
    print(len(texts), "lines,", len(kept), "words of", len(entries))


if __name__ == "__main__":
    main(*sys.argv[1:])
