from IPython.core.formatters import DisplayFormatter

from ragfin import plots
from ragfin.stats import wilson


def figure():
    return plots.intervals({"line": {"tabla": wilson(3, 12), "texto": wilson(9, 12)}}, xlabel="share")


def test_a_notebook_shows_a_figure_as_an_image_without_pyplot():
    data, _ = DisplayFormatter().format(figure())
    assert data["image/png"].startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_image():
    assert figure()._repr_png_() == figure()._repr_png_()


def test_rates_are_written_with_n_and_with_their_bounds_when_told():
    series = {"line": {"tabla": wilson(3, 12)}}
    texts = [text.get_text() for text in plots.intervals(series, xlabel="share").axes[0].texts]
    assert texts == ["0.25  n=12"]
    texts = [text.get_text() for text in plots.intervals(series, xlabel="share", show_bounds=True).axes[0].texts]
    assert texts == ["0.25  [0.09, 0.53]  n=12"]
