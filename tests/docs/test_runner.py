# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The tests of the pages find what is wrong: a planted error in each kind of block."""

import os
import subprocess

import commands
import make_examples
import pytest
import runner
from pages import ROOT, Block, blocks_of, spans_of

INCLUDES = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests'}"]
RIGHT = "```python\nx = 1\n```\n"


def block(language, text, reason=""):
    return Block("page.md", 1, language, text, reason)


# ---- Pages ---------------------------------------------------------------------------------------


def test_blocks_are_found():
    page = "a\n\n<!-- test: takes minutes -->\n```sh\nrotary bench\n```\n" + RIGHT
    first, second = blocks_of("page.md", page)
    assert (first.name, first.language, first.reason) == ("page.md:5", "sh", "takes minutes")
    assert (second.name, second.text, second.reason) == ("page.md:8", "x = 1\n", "")


@pytest.mark.parametrize(
    "page,message",
    [
        ("```\nx\n```\n", "'' is none of"),
        ("```rust\nx\n```\n", "'rust' is none of"),
        ("```python\nx\n", "without an end"),
        ("<!-- test: is tedious -->\n" + RIGHT, "'is tedious' is none of"),
        ("<!-- test: takes minutes -->\n" + RIGHT, "python cannot be marked"),
        ("<!-- test: needs a GPU -->\n\n" + RIGHT, "above no block"),
        ("```text\n$ rotary models\n```\n", "a command in a block of text"),
        ("```text\nroformer pretrain run/\n```\n", "a command in a block of text"),
    ],
)
def test_a_page_is_rejected(page, message):
    with pytest.raises(ValueError, match=message):
        blocks_of("page.md", page)


def test_spans_are_those_of_the_prose():
    assert spans_of("`a\nb`\n" + RIGHT + "`c`") == ["a b", "c"]


# ---- Python --------------------------------------------------------------------------------------


def run_python(folder, *texts):
    given = [Block("page.md", 10 * n + 1, "python", text, "") for n, text in enumerate(texts)]
    return list(runner.run_python(given, folder).values())


def test_python_blocks_share_names(tmp_path):
    assert run_python(tmp_path, "x = 1\n", "assert x == 1\n") == ["", ""]


def test_python_that_fails_is_found(tmp_path):
    first, second = run_python(tmp_path, "x = 1\ny = z\n", "x\n")
    assert 'File "page.md", line 2' in first
    assert "NameError" in first
    assert "not run" in second
    assert "SyntaxError" in run_python(tmp_path, "x = = 1\n")[0]
    assert "SystemExit" in run_python(tmp_path, "raise SystemExit(0)\n")[0]
    assert run_python(tmp_path, "import os; os._exit(0)\n") == ["died"]


def test_what_python_prints_is_compared(tmp_path):
    assert run_python(tmp_path, "print('a flash')  # -> flash\n") == [""]
    assert "does not print 'cudnn'" in run_python(tmp_path, "print('flash')  # -> cudnn\n")[0]
    twice = "print('a')  # -> b\nprint('b')  # -> a\n"
    assert "does not print 'a'" in run_python(tmp_path, twice)[0]
    right, wrong = run_python(tmp_path, "x = 2\n", ">>> x + 1\n4\n")
    assert right == ""
    assert "Expected:\n    4\nGot:\n    3\n" in wrong


def test_python_for_a_gpu_runs_on_the_cpu(tmp_path):
    given = block("python", 'assert "cuda" != "cpu"\n', "needs a GPU")
    assert "AssertionError" in runner.run_python([given], tmp_path)["page.md:1"]


# ---- C and C++ -----------------------------------------------------------------------------------


def compile_blocks(folder, *blocks):
    is_c = blocks[0].language == "c"
    source = folder / ("pages.c" if is_c else "pages.cc")
    text = make_examples.c_source_of(blocks) if is_c else make_examples.source_of(blocks, "")
    source.write_text(text)
    compiler = os.environ.get("CC", "cc") if is_c else os.environ.get("CXX", "c++")
    done = subprocess.run(
        [compiler, "-std=c11" if is_c else "-std=c++20", "-fsyntax-only", *INCLUDES, str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


def test_a_compiler_error_names_the_page(tmp_path):
    main = block("cpp", '#include <cstdio>\n\nint main() {\n  return std::puts("") < 0;\n}\n')
    wrong = Block("page.md", 40, "cpp", "int x = 1;\nunknown(x);\n", "")
    errors = compile_blocks(tmp_path, main, wrong)
    assert "page.md:41:1: error: " in errors
    assert errors.count("error: ") == 1
    c = Block(
        "page.md", 50, "c", "#include <rotary/rotary_c.h>\nint main(void) {\n  return z;\n}\n", ""
    )
    errors = compile_blocks(tmp_path, c)
    assert "page.md:52:" in errors
    assert errors.count("error: ") == 1


def test_a_block_that_fails_is_found(tmp_path, monkeypatch):
    texts = ["int x = 1;\n", 'throw std::runtime_error("planted");\n',
             "int main() {\n  return 1;\n}\n"]  # fmt: skip
    blocks = [Block("page.md", 10 * n, "cpp", text, "") for n, text in enumerate(texts)]
    source = tmp_path / "pages.cc"
    source.write_text(make_examples.source_of(blocks, ""))
    program = tmp_path / "docs_examples"
    compiler = [os.environ.get("CXX", "c++"), "-std=c++20", *INCLUDES]
    subprocess.run(
        [*compiler, str(ROOT / "tests/docs/examples.cc"), str(source), "-o", str(program)],
        check=True,
    )
    monkeypatch.setenv("ROTARY_DOCS_EXAMPLES", str(program))
    runner.built_examples.cache_clear()
    results = [runner.run_compiled(block, tmp_path) for block in blocks]
    runner.built_examples.cache_clear()
    assert results == ["", "page.md:10: planted\n", "page.md:20: main fails\n"]


def test_blocks_that_were_not_built_are_found(tmp_path, monkeypatch):
    built = block("cpp", "f();\n", "needs a GPU")
    monkeypatch.setattr(
        runner, "built_examples", lambda: {"page.md:1": make_examples.hash_of(built)}
    )
    assert runner.run_compiled(built, tmp_path) == ""
    assert "has changed" in runner.run_compiled(block("cpp", "g();\n"), tmp_path)
    other = Block("page.md", 2, "cpp", "f();\n", "")
    assert "is not part of docs_examples" in runner.run_compiled(other, tmp_path)


# ---- CMake, JSON, commands -----------------------------------------------------------------------


def test_cmake_of_no_tested_project_is_found():
    right = "find_package(rotary CONFIG REQUIRED)\ntarget_link_libraries(x PRIVATE rotary::c)\n"
    assert runner.check_cmake(block("cmake", right)) == ""
    assert "rotary::none" in runner.check_cmake(
        block("cmake", "target_link_libraries(x PRIVATE rotary::none)\n")
    )


def test_json_is_read_by_the_command(tmp_path):
    config = '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1}'
    assert runner.check_json(block("json", config), tmp_path) == ""
    assert runner.check_json(block("json", config[:-1]), tmp_path) != ""
    assert "hidden_size" in runner.check_json(block("json", config.replace("64", '"x"')), tmp_path)
    assert "no test" in runner.check_json(block("json", "[1]"), tmp_path)


@pytest.mark.parametrize(
    "command,wrong",
    [
        ("rotary inspect x --jsn", "rotary inspect has no flag --jsn"),
        ("rotary show x", "rotary has no verb show"),
        ("roformer finetune base/ t.tsv --output run/ --rate 1", "no flag --rate"),
        ("torchrun --no-python --ranks 8 roformer bench x", "torchrun has no flag --ranks"),
        ("torchrun --no-python roformer bench x --ranks", "roformer bench has no flag --ranks"),
        ("make everything", "no target everything"),
        ("make fuzz SPEED=1", "no variable SPEED"),
        ('pip install ".[speed]"', "no extra speed"),
        ("cmake -B build -DROTARY_BUILD_ALL=ON", "no option ROTARY_BUILD_ALL"),
        ("cmake --preset quick", "no preset quick"),
        ("scripts/none.sh", "no file scripts/none.sh"),
        ("python bench/torch/bench_rotation.py --none", "has no flag --none"),
    ],
)
def test_what_does_not_exist_is_found(command, wrong, tmp_path):
    for reason in ("", "needs a GPU"):
        assert wrong in runner.run_commands(block("sh", command + "\n", reason), tmp_path)


def test_commands_that_cannot_be_run_must_be_marked(tmp_path):
    assert "not marked so" in runner.run_commands(block("sh", "make run\n"), tmp_path)
    assert "not marked so" in runner.run_commands(
        block("sh", "make run\n", "takes minutes"), tmp_path
    )
    assert runner.run_commands(block("sh", "make run\n", "builds the project"), tmp_path) == ""


def test_commands_that_fail_are_found(tmp_path):
    wrong = runner.run_commands(block("sh", "rotary inspect none.json\nrotary models\n"), tmp_path)
    assert "failed: rotary inspect none.json" in wrong


def test_what_a_command_prints_is_compared(tmp_path):
    version = runner.process(["rotary", "--version"], tmp_path).stdout
    assert runner.run_commands(block("console", "$ rotary --version\n" + version), tmp_path) == ""
    assert runner.run_commands(block("console", "$ rotary --version\n[...]\n"), tmp_path) == ""
    for printed in ("rotary 99.0.0\n", "", f"{version}more\n"):
        wrong = runner.run_commands(block("console", "$ rotary --version\n" + printed), tmp_path)
        assert "prints" in wrong, printed


def test_shorter_forms():
    assert commands.shorter("rotary models") == "rotary models"
    assert commands.shorter("rotary bench --target AVX2  # old machines") == (
        f"rotary bench --target {commands.scalar_target()} --quick --shape decode"
    )
    assert commands.shorter("roformer pretrain r --resume") == "roformer pretrain r --resume"
    assert commands.shorter("torchrun --nproc-per-node 8 roformer pretrain r --stages 9x9x9") == (
        "torchrun --nproc-per-node 2 roformer pretrain r --stages 32x4x2"
    )
