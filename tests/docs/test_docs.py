# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every code block of the pages is run, in the order of its page and in the folder of a reader;
what cannot be run here is marked in the page (pages.py). Commands and paths in the prose exist, and
links lead somewhere."""

import concurrent.futures
import re
import shutil

import commands
import pytest
import reader
import runner
from pages import PAGES, ROOT, all_blocks, prose_of, spans_of

BLOCKS = [block for block in all_blocks() if block.language != "text"]
FOLDERS = [p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "build"))]


def run_page(page, template, folder):
    """What is wrong with each block of a page, by name."""
    blocks = [block for block in BLOCKS if block.page == page]
    shutil.copytree(template, folder, symlinks=True)
    own = (folder / page).parent if page.startswith("examples/") else folder  # as these say
    errors = runner.run_python([b for b in blocks if b.language == "python"], own)
    for block in blocks:
        if block.language in ("c", "cpp"):
            errors[block.name] = runner.run_compiled(block, own)
        elif block.language == "cmake":
            errors[block.name] = runner.check_cmake(block)
        elif block.language == "json":
            errors[block.name] = runner.check_json(block, own)
        elif block.language in ("console", "sh"):
            errors[block.name] = runner.run_commands(block, own)
    return errors


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The results of all pages, which run in parallel."""
    template = reader.make_folder(tmp_path_factory.mktemp("reader"))
    work = tmp_path_factory.mktemp("pages")
    names = dict.fromkeys(block.page for block in BLOCKS)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(run_page, name, template, work / name.replace("/", "_"))
            for name in names
        }


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_runs(block, pages):
    wrong = pages[block.page].result()[block.name]
    assert wrong == "", f"{block.name}\n{block.text}\n{wrong}"


# ---- The prose -----------------------------------------------------------------------------------

PROGRAM = re.compile(
    r"(build/bin/)?(rotary|roformer|make|cmake|ctest|pip|python|scripts/\S+) [-\w.]"
)
PATH = re.compile(rf"({'|'.join(FOLDERS)})/[\w./-]+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_paths_in_the_prose_exist(page):
    wrong = []
    known = {flag for program in commands.COMMANDS for verb in commands.verbs_of(program)
             for flag in commands.flags_of(program, verb)} | commands.FLAGS_OF_OTHERS  # fmt: skip
    spans = spans_of(page.read_text(encoding="utf-8"))
    for path in {ROOT / word for span in spans for word in span.split() if PATH.fullmatch(word)}:
        if path.suffix in (".py", ".sh") and path.is_file():
            known |= set(re.findall(r"(--[a-z][-a-z]*)", path.read_text(encoding="utf-8")))
    for span in spans:
        if PROGRAM.match(span):
            wrong += filter(None, map(commands.wrong_with, commands.simple_commands(span)))
        elif re.match(r"-C cmake\.define\.|-D", span):
            wrong += filter(None, [commands.wrong_with_pip(["install", *span.split()])])
        elif PATH.fullmatch(span) and not (ROOT / span).exists():
            wrong.append(f"no file {span}")
        elif re.match(r"--[a-z]", span):
            wrong += [f"no flag {f}" for f in commands.flags_in(span.split()) if f not in known]
    assert wrong == []


def anchors(text):
    titles = re.findall(r"^#+ (.*)$", prose_of(text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if re.match(r"https?:", link):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            wrong.append(link)
    assert wrong == []


def test_the_readme_fits_on_three_screens():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100
