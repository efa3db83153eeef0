# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The explorer page in Chromium: files, drags, views, the tour, links, numbers of the command."""

import base64
import json
import pathlib
import re

import pytest
from page import COMMAND, PAGE, ROOT, command_json, golden_models, hostile_files, run_command

VIEWS = [
    "model",
    "wavelengths",
    "compare",
    "decay",
    "maps",
    "precision",
    "pairing",
    "vector",
    "plan",
]
LLAMA = ROOT / "examples/models/llama-3.1-8b.json"

DROP = """([files]) => {
  const answers = [];
  const drop = async () => {
    for (const [name, base64] of files) {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], name));
      const { app } = rotaryExplorer;
      const opened = new Promise((done) => {
        const before = app.openFile.bind(app);
        app.openFile = async (file) => { delete app.openFile; done(await before(file)); };
      });
      dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
      const ok = await opened;
      const alert = document.getElementById("alert");
      answers.push({ ok, alert: alert.hidden ? "" : alert.textContent,
        rope: ok ? app.rope.rope : null, charts: document.querySelectorAll("svg.chart").length });
    }
    return answers;
  };
  return drop();
}"""


def drop(tab, files: dict[str, bytes]) -> list[dict]:
    encoded = [[name, base64.b64encode(content).decode()] for name, content in files.items()]
    return tab.evaluate(DROP, [encoded])


def readout(tab) -> dict[str, str]:
    return tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#readout > div')].map((row) =>"
        " [row.children[0].textContent, row.children[1].textContent]))"
    )


def test_page_is_one_small_file() -> None:
    assert PAGE.stat().st_size < 2_000_000
    assert PAGE.read_bytes().isascii()


def test_loads(show) -> None:
    tab = show()
    assert "rotary explorer" in tab.title()
    assert tab.locator("svg.chart").count() == 1
    assert tab.locator("#alert").is_hidden()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_of_every_bundled_model(show, width, theme) -> None:
    tab = show(width=width, theme=theme)
    for model in tab.evaluate("Object.keys(rotaryExplorer.app.models)"):
        tab.select_option("#model", model)
        for view in VIEWS:
            tab.evaluate("(v) => document.getElementById(`tab-${v}`).click()", view)
            assert (
                tab.evaluate("document.querySelector('[aria-selected=true]').dataset.view") == view
            )
            assert tab.locator("#panel > *").count() > 0, (model, view)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (model, view, wide)


def test_drops_every_golden_config(show) -> None:
    tab = show()
    models = golden_models()
    answers = drop(tab, {name: text.encode() for name, text in models.items()})
    for name, answer in zip(models, answers, strict=True):
        assert answer["ok"] and answer["alert"] == "" and answer["charts"] == 1, (name, answer)


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/models/*.json")), ids=lambda f: f.stem)
def test_numbers_are_those_of_the_command(show, file) -> None:
    tab = show()
    assert drop(tab, {file.name: file.read_bytes()})[0]["ok"]
    tab.click("#tab-model")
    tab.click("details.numbers summary")
    tab.wait_for_selector(".numbers tbody tr")  # written when the browser tells of the opening
    rows = tab.evaluate(
        "[...document.querySelectorAll('.numbers tbody tr')].map((row) =>"
        " [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))"
    )
    name = tab.evaluate("rotaryExplorer.app.state.rope")
    rope = command_json("inspect", file, "--rope", name)["ropes"][0]
    assert [row[:-1] for row in rows] == rope["frequencies"]
    shown = tab.evaluate(
        "[...document.querySelectorAll('.properties td, .properties th, .remarks li')]"
        ".map((cell) => cell.textContent)"
    )
    words = run_command("inspect", file, "--rope", name).stdout.split()
    assert [word for cell in shown for word in cell.split() if word not in words] == []


def test_curves_are_those_of_the_command(show) -> None:
    tab = show("#v=decay&p=100&c=4096")
    decay = command_json("decay", LLAMA)
    shown = readout(tab)
    assert float(shown["mean score"]) == decay["score"][100]
    assert float(shown["bound"]) == decay["bound"][100] / decay["bound"][0]
    bounds = command_json("bounds", LLAMA, "--context", 4096)["cosine_sum"]
    page = tab.evaluate("rotaryExplorer.app.view.bounds.cosine_sum")
    assert page == bounds
    tab.click("#tab-precision")
    tab.fill("#position-number", "4095")
    tab.press("#position-number", "Enter")
    shown = readout(tab)
    precision = command_json("precision", LLAMA, "--context", 4096)
    at = precision["positions"].index(4095)
    for method in precision["methods"]:
        assert float(shown[method["method"]]) == method["value_error"][at]


def test_plan_is_that_of_the_command(show) -> None:
    tab = show("#v=plan&c=1048576")
    shown = tab.evaluate("rotaryExplorer.app.view.found")
    assert shown == command_json("plan", LLAMA, "--context", 1048576)
    lines = tab.locator("code").all_text_contents()
    assert any('"rope_type":"yarn"' in line for line in lines)


def test_compares_recipes_and_dialects(show) -> None:
    file = ROOT / "examples/models/qwen2.5-7b-yarn.json"
    tab = show("#m=qwen2.5-7b-yarn&v=compare")
    tab.select_option("#other0", "dialect:onnxruntime-genai@2026-08")
    tab.select_option("#other1", "recipe:linear")
    rows = tab.evaluate("rotaryExplorer.app.view.rows")
    assert len(rows) == 3
    diff = command_json("diff", file, "--dialect", "onnxruntime-genai@2026-08")["ropes"][0]
    ours = command_json("inspect", file, "--dialect", "onnxruntime-genai@2026-08")["ropes"][0]
    assert rows[1]["scale"] == ours["scale"]
    assert rows[1]["apart"] == diff.get("position", rows[1]["apart"])
    assert tab.locator("svg.chart path[fill=none]").count() >= 5  # three lines and two ratios


def test_hostile_files_leave_the_page_alive(show) -> None:
    tab = show()
    for name, content in hostile_files().items():
        answer = drop(tab, {name: content})[0]
        if not answer["ok"]:
            assert answer["alert"], name
        assert answer["charts"] == 1, name
        tab.click("#tab-vector")
        tab.click("#tab-wavelengths")
        assert tab.locator("svg.chart").count() == 1, name


def test_unusual_models_are_shown_or_refused_in_words(show) -> None:
    tab = show()
    llama = b'{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32'
    files = {
        "one pair": b'{"model_type": "llama", "head_dim": 2, "max_position_embeddings": 64}',
        "short": llama + b', "max_position_embeddings": 1}',
        "long": llama + b', "max_position_embeddings": 1000000000000}',
        "unknown": b'{"model_type": "zzz", "head_dim": 64, "rope_theta": 10000}',
        "large": llama + b', "x": "' + b"a" * 4_000_000 + b'"}',
        "theta 1": llama + b', "rope_theta": 1}',
        "theta 1e300": llama + b', "rope_theta": 1e300}',
    }
    for name, content in files.items():
        answer = drop(tab, {f"{name}.json": content})[0]
        assert answer["ok"] and answer["alert"] == "", (name, answer)
        for view in VIEWS:
            if name != "one pair" and view in ("decay", "precision", "plan"):
                continue  # as for other models, and slow for 16 million positions
            tab.evaluate("(view) => rotaryExplorer.app.set({ view })", view)
            shown = tab.inner_text("#panel") + tab.inner_text("#readout")
            assert not re.search("NaN|undefined|Infinity", shown), (name, view)
            wrong = "[...document.querySelectorAll('#panel svg *')].some((e) => [...e.attributes]"
            assert not tab.evaluate(f"{wrong}.some((a) => /NaN|Infinity/.test(a.value)))"), (
                name,
                view,
            )
        tab.evaluate("rotaryExplorer.app.set({ view: 'wavelengths' })")
    before = tab.evaluate("rotaryExplorer.app.file.source")
    for name, content, words in [
        ("many.json", b'{"model_type": "llama", "head_dim": 65536}', "32768 pairs"),
        ("none.json", b'{"model_type": "gpt2", "n_embd": 768, "n_head": 12}', "no rotation found"),
        ("inf.json", llama + b', "rope_theta": 1e400}', "not valid JSON"),
    ]:
        answer = drop(tab, {name: content})[0]
        assert not answer["ok"] and words in answer["alert"], (name, answer)
        assert tab.evaluate("rotaryExplorer.app.file.source") == before
        assert answer["charts"] == 1


def test_hostile_messages_are_those_of_the_command(show, tmp_path, monkeypatch) -> None:
    tab = show()
    monkeypatch.chdir(tmp_path)
    for name, content in hostile_files().items():
        pathlib.Path(name).write_bytes(content)
        done = run_command("inspect", name)
        answer = drop(tab, {name: content})[0]
        assert answer["ok"] == (done.returncode == 0), (name, answer, done.stderr)
        if not answer["ok"]:
            assert answer["alert"] == done.stderr.removeprefix("rotary: ").rstrip("\n")


def test_reads_a_gguf_header(show) -> None:
    tab = show()
    for file in sorted((ROOT / "tests/fuzz/corpus/gguf").glob("*.gguf")):
        answer = drop(tab, {file.name: file.read_bytes()})[0]
        # Recipes that depend on the context are shown for the wanted one.
        context = tab.evaluate("rotaryExplorer.app.context")
        done = run_command("inspect", file, "--json", "--context", context)
        assert answer["ok"] == (done.returncode == 0), (file, answer)
        if answer["ok"]:
            ropes = {rope["name"]: rope for rope in json.loads(done.stdout)["ropes"]}
            mine = answer["rope"]
            assert mine["frequencies"] == ropes[mine["name"]]["frequencies"]


def test_drags(show) -> None:
    tab = show("#v=decay")
    box = tab.locator("svg.chart").bounding_box()
    y = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 200, y)
    tab.mouse.down()
    positions = []
    for x in range(200, 700, 50):
        tab.mouse.move(box["x"] + x, y)
        positions.append(tab.evaluate("rotaryExplorer.app.state.position"))
    tab.mouse.up()
    assert positions == sorted(positions) and len(set(positions)) == len(positions)
    assert readout(tab)["distance"] == str(positions[-1])
    assert tab.input_value("#position-number") == str(positions[-1])  # views move together
    # The dial turns the position.
    dial = tab.locator(".dial-large").bounding_box()
    middle = (dial["x"] + dial["width"] / 2, dial["y"] + dial["height"] / 2)
    before = tab.evaluate("rotaryExplorer.app.state.position")
    tab.mouse.move(middle[0] + 60, middle[1])
    tab.mouse.down()
    tab.mouse.move(middle[0] + 40, middle[1] - 40, steps=4)
    tab.mouse.up()
    assert tab.evaluate("rotaryExplorer.app.state.position") > before


@pytest.mark.parametrize("view", ["wavelengths", "compare", "decay", "maps", "precision", "plan"])
def test_every_step_of_a_dragged_context_is_drawn(show, view) -> None:
    """With fewer points where all of them take more than a frame, and with all when it rests."""
    tab = show(f"#v={view}&m=llama-2-7b&span=all&x=recipe%3Ayarn,recipe%3Alinear&c=8192")
    picture = "document.getElementById('panel').innerHTML"
    whole = tab.evaluate("JSON.stringify(rotaryExplorer.app.view.data(rotaryExplorer.app)).length")
    pictures = tab.evaluate(
        "() => { const seen = []; for (const context of [9000, 20000, 60000, 300000]) {"
        f" rotaryExplorer.app.set({{ context }}); seen.push({picture}); }} return seen; }}"
    )
    if view != "plan":  # its lines are those of before until they are checked
        assert len(set(pictures)) == 4
    tab.wait_for_timeout(200)
    tab.evaluate("() => new Promise((done) => setTimeout(done))")
    assert tab.locator("#panel .stale").count() == 0
    rested = tab.evaluate("JSON.stringify(rotaryExplorer.app.view.data(rotaryExplorer.app)).length")
    assert rested > 0.6 * whole
    fresh = show(f"#v={view}&m=llama-2-7b&span=all&x=recipe%3Ayarn,recipe%3Alinear&c=300000")
    data = "rotaryExplorer.app.view.data(rotaryExplorer.app)"
    assert tab.evaluate(data) == fresh.evaluate(data)


def test_shared_link_shows_the_same(show) -> None:
    tab = show()
    text = '{"model_type": "llama", "head_dim": 64, "rope_theta": 12345}'
    tab.click("#paste")
    tab.fill("#paste-text", text)
    tab.click("#paste-read")
    tab.click("#tab-vector")
    tab.fill("#position-number", "77")
    tab.press("#position-number", "Enter")
    tab.wait_for_url(re.compile("p=77"))  # written with a delay
    first = readout(tab)
    other = show("#" + tab.url.split("#", 1)[1])
    assert readout(other) == first
    assert other.evaluate("rotaryExplorer.app.rope.rope.theta") == 12345
    assert other.evaluate("rotaryExplorer.app.state.view") == "vector"


def test_damaged_links_are_survived(show) -> None:
    for fragment in ["#m=nonsense", "#v=nothing&p=abc&i=-7", "#t=%%%&m=own", "#x=a,b,c&v=compare"]:
        tab = show(fragment)
        assert tab.locator("#panel > *").count() > 0, fragment


def test_tour_has_eight_steps(show) -> None:
    tab = show()
    tab.click("#tour")
    titles = []
    for step in range(8):
        assert f"Step {step + 1} of 8" in tab.inner_text("#tour-card")
        titles.append(tab.inner_text("#tour-card h2"))
        assert tab.locator("#panel svg.chart").count() >= 1
        assert tab.locator("#panel .error").count() == 0
        tab.click("#tour-next")
    assert tab.locator("#tour-card").is_hidden()
    assert titles[-1] == "YaRN" and len(set(titles)) == 8


def test_keyboard(show) -> None:
    tab = show()
    state = "rotaryExplorer.app.state"
    tab.keyboard.press("8")
    assert tab.evaluate(f"{state}.view") == "vector"
    position = tab.evaluate(f"{state}.position")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(f"{state}.position") == position + 1
    pair = tab.evaluate(f"{state}.pair")
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate(f"{state}.pair") == pair + 1
    tab.keyboard.press("t")
    assert tab.locator("#tour-card").is_visible()
    tab.keyboard.press("Escape")
    assert tab.locator("#tour-card").is_hidden()
    tab.focus("[aria-selected=true]")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.getAttribute('role')") == "tab"


def test_copies_json_and_svg(show) -> None:
    tab = show("#v=wavelengths")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.click("#copy-json")
    tab.locator("#copy-json", has_text="Copied").wait_for()
    copied = json.loads(tab.evaluate("navigator.clipboard.readText()"))
    assert copied["frequencies"] == command_json("inspect", LLAMA)["ropes"][0]["frequencies"]
    tab.click("#copy-svg")
    tab.locator("#copy-svg", has_text="Copied").wait_for()
    svg = tab.evaluate("navigator.clipboard.readText()")
    assert svg.startswith("<svg") and "var(" not in svg
    errors = "new DOMParser().parseFromString(t, 'image/svg+xml').querySelector('parsererror')"
    assert tab.evaluate(f"(t) => {errors}", svg) is None


def test_theme_switches(show) -> None:
    tab = show(theme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(background)
    tab.click("#theme")
    assert tab.evaluate(background) != light
    assert show(theme="dark").evaluate(background) == tab.evaluate(background)


def test_explore_writes_the_page_with_the_model(show, tmp_path) -> None:
    for file in (LLAMA, ROOT / "tests/fuzz/corpus/gguf/llama.gguf"):
        out = tmp_path / f"{file.stem}.html"
        done = run_command("explore", file, "-o", out, "--no-open")
        assert done.returncode == 0, (COMMAND, done.stderr)
        assert done.stdout == f"{out}\n"
        tab = show(page=out)
        assert tab.evaluate("rotaryExplorer.app.file.source") == file.name
        rope = command_json("inspect", file)["ropes"][0]
        assert tab.evaluate("rotaryExplorer.app.rope.rope.frequencies") == rope["frequencies"]


def test_explore_reports_a_missing_model(tmp_path) -> None:
    done = run_command("explore", tmp_path / "none.json", "-o", tmp_path / "out.html")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert not (tmp_path / "out.html").exists()
