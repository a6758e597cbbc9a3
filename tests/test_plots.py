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
