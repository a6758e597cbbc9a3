"""Figures of the lesson, in one style: colour-blind-safe, readable in black and white, opaque background.

Every function returns a `matplotlib.figure.Figure` of its own (not registered with pyplot) and prints nothing.
Colours come from Okabe and Ito's palette; series differ in marker or hatch as well, never in colour alone.
It does not compute rates: intervals come from `ragfin.stats`, rows from `ragfin.evaluation`.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as PlainFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ragfin.chunking import Chunk
from ragfin.stats import Interval

Span = tuple[int, int]

BLUE, ORANGE, GREEN, PINK, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#666666"
SERIES = ((BLUE, "o", ""), (ORANGE, "s", "///"), (GREEN, "D", "..."), (PINK, "^", "xxx"), (GREY, "v", "\\\\\\"))

_STYLE: Any = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "svg.hashsalt": "ragfin",
    "svg.fonttype": "path",
    "hatch.linewidth": 0.6,
    "figure.dpi": 110,
}


class Figure(PlainFigure):
    """A figure that a notebook shows as an image without pyplot, the same bytes every time."""

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        with mpl.rc_context(_STYLE):
            self.savefig(image, format="png", metadata={"Software": None}, bbox_inches="tight")
        return image.getvalue()


def intervals(
    series: Mapping[str, Mapping[str, Interval]],
    *,
    xlabel: str,
    title: str = "",
    show_n: bool = True,
    show_bounds: bool = False,
) -> Figure:
    """Draw rates as points with their intervals: one row per measure or kind, one marker per series.

    Parameters
    ----------
    series : mapping of str to mapping of str to Interval
        Series name (at most five) to row label to interval; a row may be missing in a series, and an interval
        whose mean is nan is left out.
    xlabel : str
        What the rate is a share of.
    title : str, optional
    show_n : bool, optional
        Write mean and n to the right of each interval.
    show_bounds : bool, optional
        Write the bounds there too.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = list(dict.fromkeys(label for points in series.values() for label in points))
    figure, axes = _figure(8.4, 1.1 + 0.34 * len(rows) * max(1, len(series) * 0.85))
    step = 0.8 / max(1, len(series))
    for order, ((name, points), (colour, marker, _)) in enumerate(zip(series.items(), SERIES, strict=False)):
        label: str | None = name
        for row, text in enumerate(rows):
            point = points.get(text)
            if point is None or point.mean != point.mean:
                continue
            height = row + (order - (len(series) - 1) / 2) * step
            axes.plot([point.low, point.high], [height, height], color=colour, lw=2, solid_capstyle="butt")
            axes.plot(point.mean, height, marker, color=colour, ms=6.5, mec="white", label=label)
            label = None
            if show_n:
                bounds = f"  [{point.low:.2f}, {point.high:.2f}]" if show_bounds else ""
                axes.text(1.03, height, f"{point.mean:.2f}{bounds}  n={point.n}", va="center", size=8.5, color=colour)
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6), xlabel=xlabel, yticks=range(len(rows)))
    axes.set_title(title, loc="left")
    axes.set_yticklabels(rows)
    axes.grid(False, axis="y")
    if len(series) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(series), frameon=False, borderaxespad=0.2)
        axes.set_title(title, loc="left", pad=26)
    return figure


def document_map(
    length: int,
    chunks: Sequence[Chunk],
    passages: Sequence[Span],
    *,
    gold: Sequence[Span] = (),
    cited: Sequence[Span] = (),
    title: str = "",
) -> Figure:
    """Draw one document as a ruler of characters with its passages, chunks, gold and cited spans.

    Parameters
    ----------
    length : int
        Code points of the document.
    chunks : sequence of Chunk
        Chunks of this document; tables are hatched, chunks with a footnote carry its mark.
    passages, gold, cited : sequence of (start, end)
        Half-open spans in code points.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    lanes: list[tuple[str, list[tuple[Span, str, str]]]] = [
        ("passages", [(span, "#BBBBBB" if i % 2 else "#E6E6E6", "") for i, span in enumerate(passages)]),
        ("chunks", [piece for i, chunk in enumerate(chunks) for piece in _chunk_pieces(chunk, i)]),
    ]
    if gold:
        lanes.append(("gold", [(span, GREEN, "") for span in gold]))
    if cited:
        lanes.append(("cited", [(span, ORANGE, "xxx") for span in cited]))
    figure, axes = _figure(9.2, 0.9 + 0.55 * len(lanes))
    for row, (_, pieces) in enumerate(lanes):
        for (start, end), colour, hatch in pieces:
            axes.barh(
                row,
                max(end - start, length / 400),
                left=start,
                height=0.62,
                color=colour,
                hatch=hatch,
                ec="white",
                lw=0.6,
            )
    axes.set(ylim=(len(lanes) - 0.45, -0.55), xlim=(0, length), yticks=range(len(lanes)))
    axes.set_title(title, loc="left")
    axes.set_yticklabels([name for name, _ in lanes])
    axes.set_xlabel("character of the document (solid: prose; hatched: table; dotted: footnote)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.grid(False)
    return figure


def cumulative_scores(
    groups: Mapping[str, Sequence[float]],
    *,
    thresholds: Mapping[str, float] | None = None,
    xlabel: str,
    title: str = "",
) -> Figure:
    """Draw the cumulative distribution of a score in each group, with thresholds as vertical lines.

    Parameters
    ----------
    groups : mapping of str to sequence of float
        Group name to its scores.
    thresholds : mapping of str to float, optional
        Label to position.
    xlabel, title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(7.6, 3.6)
    styles = ("-", "--", "-.", ":")
    for (name, scores), (colour, _, _), line in zip(groups.items(), SERIES, styles, strict=False):
        ordered = sorted(scores)
        shares = [(i + 1) / len(ordered) for i in range(len(ordered))]
        axes.step(ordered, shares, where="post", color=colour, ls=line, lw=2, label=f"{name} (n={len(ordered)})")
    for row, (name, position) in enumerate((thresholds or {}).items()):
        axes.axvline(position, color="black", lw=1, ls=(":", "-.")[row % 2])
        axes.text(position, 1.02 + 0.07 * row, f" {name} {position:.2f}", size=9, ha="left", va="bottom")
    axes.set(xlabel=xlabel, ylabel="share of questions with at most this score", ylim=(0, 1.0))
    axes.set_title(title, loc="left", pad=8 + 14 * len(thresholds or {}))
    axes.legend(loc="lower right", frameon=False)
    return figure


def trade_off(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    marks: Mapping[str, tuple[float, float]] | None = None,
    xlabel: str,
    ylabel: str,
    diagonal: bool = True,
    title: str = "",
) -> Figure:
    """Draw what one gains against what one pays, both as shares, with marked points.

    Parameters
    ----------
    curves : mapping of str to (x, y)
        Name to the two sequences of a curve, values between 0 and 1.
    marks : mapping of str to (x, y), optional
        Labelled points.
    xlabel, ylabel, title : str
    diagonal : bool, optional
        Draw chance.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(5.6, 4.6)
    for (name, (x, y)), (colour, _, _), line in zip(curves.items(), SERIES, ("-", "--", "-."), strict=False):
        axes.step(x, y, where="post", color=colour, lw=2, ls=line, label=name)
    for (name, (x_at, y_at)), marker in zip((marks or {}).items(), "osD^v", strict=False):
        axes.plot(x_at, y_at, marker, color="black", ms=7, mfc="white", mew=1.5, ls="none", label=name)
    if diagonal:
        axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=":")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, loc="left")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def stacked_counts(counts: Mapping[str, Mapping[str, int]], *, xlabel: str, title: str = "") -> Figure:
    """Draw counts that add up to the same whole, one bar per system, one part per cause.

    Parameters
    ----------
    counts : mapping of str to mapping of str to int
        System to cause to number; the order of the causes is that of the first system.
    xlabel, title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    causes = list(dict.fromkeys(cause for parts in counts.values() for cause in parts))
    fills = (("#F2F2F2", ""), (SKY, ""), (ORANGE, "///"), (PINK, "xx"), ("#F0E442", ".."), (BLUE, "\\\\"), (GREY, "++"))
    figure, axes = _figure(9.2, 1.3 + 0.52 * len(counts))
    for row, parts in enumerate(counts.values()):
        left = 0
        for cause, (colour, hatch) in zip(causes, fills * 2, strict=False):
            number = parts.get(cause, 0)
            if not number:
                continue
            axes.barh(row, number, left=left, height=0.66, color=colour, hatch=hatch, ec="black", lw=0.6)
            box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
            axes.text(left + number / 2, row, str(number), ha="center", va="center", size=8.5, bbox=box)
            left += number
    for cause, (colour, hatch) in zip(causes, fills * 2, strict=False):
        axes.bar(0, 0, color=colour, hatch=hatch, ec="black", lw=0.6, label=cause.replace("_", " "))
    axes.set(ylim=(len(counts) - 0.5, -0.5), yticks=range(len(counts)), xlabel=xlabel)
    axes.set_yticklabels(list(counts))
    axes.set_title(title, loc="left", pad=44 if len(causes) > 4 else 28)
    axes.set_xlim(0, max(sum(parts.values()) for parts in counts.values()))
    axes.grid(False, axis="y")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=9, borderaxespad=0.2)
    return figure


def curve(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    labels: Sequence[str] = (),
    bands: Mapping[str, Sequence[Interval]] | None = None,
    xlabel: str,
    ylabel: str,
    ylim: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """Draw one or more series of points joined by lines, with labels at the points and intervals where given.

    Parameters
    ----------
    series : mapping of str to (x, y)
    labels : sequence of str, optional
        Texts beside the points of the first series.
    bands : mapping of str to sequence of Interval, optional
        Series name to the interval at each of its points.
    xlabel, ylabel, title : str
    ylim : (low, high), optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(7.2, 3.8)
    for order, ((name, (x, y)), (colour, marker, _)) in enumerate(zip(series.items(), SERIES, strict=False)):
        axes.plot(x, y, marker=marker, color=colour, ls=("-", "--", "-.", ":")[order % 4], lw=1.8, ms=6.5, label=name)
        for position, band in zip(x, (bands or {}).get(name, ()), strict=False):
            axes.plot([position, position], [band.low, band.high], color=colour, lw=1.2, alpha=0.75)
        if order == 0:
            for position, height, text in zip(x, y, labels, strict=False):
                axes.annotate(text, (position, height), xytext=(6, -14), textcoords="offset points", size=9)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if ylim:
        axes.set_ylim(*ylim)
    if len(series) > 1:
        axes.legend(frameon=False, loc="lower right")
    return figure


def save(figure: PlainFigure, path: str | Path, *, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Save a figure under a name without ending, the same bytes every time.

    Returns
    -------
    list of Path
        The files written, one for each format.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(_STYLE):
        for ending in formats:
            file = target.with_suffix(f".{ending}")
            metadata = {"Date": None} if ending == "svg" else {"Software": None}
            figure.savefig(file, dpi=160, metadata=metadata, bbox_inches="tight")
            written.append(file)
    return written


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure with one axes in the lesson's style."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.add_subplot()


def _chunk_pieces(chunk: Chunk, order: int) -> list[tuple[Span, str, str]]:
    """Return span, colour and hatch of each span of a chunk: table, prose or footnote."""
    colour = (BLUE, SKY)[order % 2]
    texts = chunk.body.split("\n\n")
    first = "///" if texts and texts[0].startswith("|") else ""
    return [(span, colour if i == 0 else PINK, first if i == 0 else "...") for i, span in enumerate(chunk.spans)]
