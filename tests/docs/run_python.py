# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""python run_python.py BLOCKS.json: runs the Python blocks of a page in order, as a reader would
who pastes one after the other. Blocks with >>> are doctests. A comment `# -> text` says that the
block prints a line with this text, in the order of the comments.

BLOCKS.json is a list of [name, text, reason]. Prints a line of JSON for each block: its name, and
its error or null. After an error no further block is run."""

import contextlib
import doctest
import io
import json
import re
import sys
import traceback


def check_printed(text: str, printed: str) -> None:
    lines = iter(printed.splitlines())
    for expected in re.findall(r"# -> (.*)$", text, re.M):
        if not any(expected.strip() in line for line in lines):
            raise AssertionError(f"does not print {expected.strip()!r}, but:\n{printed}")


def run_doctest(text: str, names: dict, name: str) -> None:
    report = io.StringIO()
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    if runner.failures:
        raise AssertionError(report.getvalue())


def run_block(name: str, text: str, names: dict) -> None:
    if re.search(r"^>>> ", text, re.M):
        run_doctest(text, names, name)
        return
    page, line = name.rsplit(":", 1)
    code = compile("\n" * (int(line) - 1) + text, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    check_printed(text, printed.getvalue())


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        blocks = json.load(file)
    names: dict = {"__name__": "__main__"}
    failed = False
    for name, text, reason in blocks:
        error = None
        if failed:
            error = "not run after the error above"
        else:
            if reason == "needs a GPU":
                text = re.sub(r"""(["'])cuda\1""", r"\1cpu\1", text)
            try:
                if reason == "needs make hooks":
                    compile(text, name, "exec")
                else:
                    run_block(name, text, names)
            except BaseException:  # SystemExit, too
                error = traceback.format_exc()
                failed = True
        print(json.dumps({"name": name, "error": error}), flush=True)


if __name__ == "__main__":
    main()
