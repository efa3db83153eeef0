# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""An inspection as HTML for notebooks: a table and a small chart in SVG, nothing from outside."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .inspection import Inspection, RopeInspection

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 180, 44, 18
_STILL = 1e18  # positions a turn from which on a pair stands still


def model(inspection: Inspection) -> str:
    title = html.escape(inspection.model_type or "model of unknown type")
    source = html.escape(inspection.source)
    ropes = "".join(rope(each) for each in inspection.ropes)
    return f"<div><b>{title}</b> <small>{source}</small>{ropes}</div>"


def rope(inspection: RopeInspection) -> str:
    rows = "".join(_row(*row) for row in inspection.rows)
    words = " ".join(inspection.sentences)
    remarks = "".join(
        f"<li>{label}: {html.escape(text)}</li>"
        for label, texts in (
            ("assumed", inspection.rope.assumed),
            ("warning", inspection.rope.warnings),
        )
        for text in texts
    )
    return (
        f"<h4>Rope {html.escape(inspection.name)}</h4><table>{rows}</table>{_chart(inspection)}"
        f"<p>{html.escape(words)}</p>" + (f"<ul>{remarks}</ul>" if remarks else "")
    )


def _row(name: str, value: str, words: str) -> str:
    cell = '<td style="text-align:left">'
    return (
        f"<tr>{cell}{html.escape(name)}</td>{cell}<b>{html.escape(value)}</b></td>"
        f"{cell}{html.escape(words)}</td></tr>"
    )


def _chart(inspection: RopeInspection) -> str:
    """Bars of the wavelengths on a logarithmic scale: without scaling, and what scaling added."""
    lengths = [float(x) for x in inspection.wavelengths]
    plain = [float(x) for x in inspection.unscaled_wavelengths]
    turning = [x for x in lengths if x < _STILL]
    if not turning:
        return ""
    trained = inspection.rope.context.trained
    low = math.floor(math.log10(min(min(turning), min(x for x in plain if x < _STILL))))
    high = math.log10(max([*turning, trained])) + 0.1
    unit = (_HEIGHT - _BOTTOM - 6) / (high - low)

    def y(length: float) -> float:
        return _HEIGHT - _BOTTOM - unit * (math.log10(length) - low)

    parts = [_decades(low, high, y), _bars(lengths, plain, y)]
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


def _bars(lengths: Sequence[float], plain: Sequence[float], y: object) -> str:
    assert callable(y)
    step = (_WIDTH - _LEFT) / len(lengths)
    floor = _HEIGHT - _BOTTOM
    bars = []
    for i, (length, unscaled) in enumerate(zip(lengths, plain)):
        if length >= _STILL:
            continue
        for top, colour in ((y(length), "#9bd"), (max(y(unscaled), y(length)), "#369")):
            bars.append(
                f'<rect x="{_LEFT + i * step:.1f}" y="{top:.1f}" width="{max(step - 1, 0.5):.1f}" '
                f'height="{max(floor - top, 0):.1f}" fill="{colour}"/>'
            )
    return "".join(bars)


def _decades(low: int, high: float, y: object) -> str:
    assert callable(y)
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
