# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""An inspection as HTML for notebooks: a table and a small chart in SVG, nothing from outside."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 180, 44, 18
_CONSTANT = 1e18  # wavelength from which on a pair counts as not rotating

#: A wavelength to its height in the chart.
_Scale = Callable[[float], float]


def model(title: str, source: str, ropes: Iterable[str]) -> str:
    """`ropes`: the HTML of each."""
    return (
        f"<div><b>{html.escape(title)}</b> <small>{html.escape(source)}</small>"
        f"{''.join(ropes)}</div>"
    )


def rope(
    name: str,
    rows: Iterable[tuple[str, str, str]],
    chart: str,
    sentences: Iterable[str],
    remarks: Mapping[str, Sequence[str]],
) -> str:
    """`remarks`: texts by their label."""
    table = "".join(_row(*row) for row in rows)
    items = "".join(
        f"<li>{label}: {html.escape(text)}</li>"
        for label, texts in remarks.items()
        for text in texts
    )
    return (
        f"<h4>Rope {html.escape(name)}</h4><table>{table}</table>{chart}"
        f"<p>{html.escape(' '.join(sentences))}</p>" + (f"<ul>{items}</ul>" if items else "")
    )


def _row(name: str, value: str, words: str) -> str:
    cell = '<td style="text-align:left">'
    return (
        f"<tr>{cell}{html.escape(name)}</td>{cell}<b>{html.escape(value)}</b></td>"
        f"{cell}{html.escape(words)}</td></tr>"
    )


def chart(lengths: Sequence[float], unscaled: Sequence[float], trained: int) -> str:
    """Bars of the wavelengths on a logarithmic scale: without scaling, and what scaling added."""
    rotating = [x for x in lengths if x < _CONSTANT]
    if not rotating:
        return ""
    low = math.floor(math.log10(min(x for x in [*rotating, *unscaled] if x < _CONSTANT)))
    high = math.log10(max([*rotating, trained])) + 0.1
    unit = (_HEIGHT - _BOTTOM - 6) / (high - low)

    def y(length: float) -> float:
        return _HEIGHT - _BOTTOM - unit * (math.log10(length) - low)

    parts = [_decades(low, high, y), _bars(lengths, unscaled, y)]
    if trained > 0:
        parts.append(_line(y(trained), f"trained: {trained}", "#c33"))
    parts.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 4}">pairs 0-{len(lengths) - 1}; bar: positions for one '
        "turn, light: added by scaling</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-size="10" fill="currentColor" role="img" aria-label="wavelengths">'
        f"{''.join(parts)}</svg>"
    )


def _bars(lengths: Sequence[float], unscaled: Sequence[float], y: _Scale) -> str:
    step = (_WIDTH - _LEFT) / len(lengths)
    floor = _HEIGHT - _BOTTOM
    bars = []
    for i, (length, plain) in enumerate(zip(lengths, unscaled)):
        if length >= _CONSTANT:
            continue
        for top, colour in ((y(length), "#9bd"), (max(y(plain), y(length)), "#369")):
            bars.append(
                f'<rect x="{_LEFT + i * step:.1f}" y="{top:.1f}" width="{max(step - 1, 0.5):.1f}" '
                f'height="{max(floor - top, 0):.1f}" fill="{colour}"/>'
            )
    return "".join(bars)


def _decades(low: int, high: float, y: _Scale) -> str:
    marks = range(low, math.floor(high) + 1, 1 + int(high - low) // 8)
    return "".join(
        f'<text x="2" y="{y(10.0**decade) + 3:.1f}">1e{decade}</text>' for decade in marks
    )


def _line(at: float, label: str, colour: str) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="{colour}" '
        f'stroke-dasharray="4 3"/><text x="{_LEFT + 2}" y="{at - 3:.1f}" fill="{colour}">'
        f"{html.escape(label)}</text>"
    )
