"""Settings accept what makes sense and explain what does not."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from gofstream.errors import SettingsError
from gofstream.settings import PRESETS, Preset, Settings, preset


def test_defaults():
    """The defaults are those of the method."""
    settings = Settings.of()
    assert settings == Settings()
    assert settings.widths is None
    assert settings.width_quantiles == (0.05, 0.25, 0.5, 0.75, 0.95)
    assert settings.n_centres is None
    assert (settings.penalty, settings.shrink, settings.precision) == (1e-6, 0.25, "float32")
    assert settings.memory == 4 * 1024**3


def test_settings_are_frozen():
    """A result can name its settings because they cannot change."""
    with pytest.raises(ValidationError, match="frozen"):
        Settings().penalty = 1.0


def test_numpy_values():
    """Arrays and NumPy numbers are as good as Python's."""
    settings = Settings.of(widths=np.array([0.5, 1]), n_centres=np.int64(7), penalty=np.float32(1))
    assert settings.widths == (0.5, 1.0)
    assert settings.n_centres == 7
    assert settings == Settings.of(widths=[0.5, 1], n_centres=7, penalty=1)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"widths": []}, "'widths': give at least one number"),
        ({"widths": [1, 1]}, "'widths': .* increasing order and each only once"),
        ({"widths": [2, 1]}, "'widths': .* increasing order"),
        ({"widths": [0, 1]}, r"'widths\[0\]': should be greater than 0, got 0"),
        ({"widths": [1, np.inf]}, r"'widths\[1\]': should be a finite number, got inf"),
        ({"width_quantiles": []}, "'width_quantiles': give at least one"),
        ({"width_quantiles": [0.5, 1]}, r"'width_quantiles\[1\]': should be less than 1, got 1"),
        ({"n_centres": 0}, "'n_centres': should be greater than or equal to 1, got 0"),
        ({"n_centres": 1.5}, "'n_centres': should be a valid integer.* got 1.5"),
        ({"centre_factor": np.nan}, "'centre_factor': should be a finite number, got nan"),
        ({"centres_from": "data"}, "should be 'reference' or 'pooled', got 'data'"),
        ({"penalty": 0}, "'penalty': should be greater than 0 or should be 'smallest', got 0"),
        ({"penalty": "tiny"}, "'penalty': should be a valid number.*'smallest', got 'tiny'"),
        ({"scaling": "minmax"}, "should be 'zscore' or 'published', got 'minmax'"),
        ({"precision": "float16"}, "should be 'float32' or 'float64', got 'float16'"),
        ({"cover": "perhaps"}, "'cover': should be a valid boolean"),
        ({"tolerance": 0}, "'tolerance': should be greater than 0"),
        ({"tolerance": np.nan}, "'tolerance': .* got nan"),
        ({"max_passes": 0}, "'max_passes': should be greater than or equal to 1"),
        ({"shrink": 1.1}, "'shrink': should be less than or equal to 1, got 1.1"),
        ({"memory": -1}, "'memory': should be greater than or equal to 1, got -1"),
        ({"width": [1]}, "unknown setting 'width'; nearest: 'widths'"),
        ({"n_centers": 5}, "unknown setting 'n_centers'; nearest: 'n_centres'"),
        ({"colour": "red"}, "unknown setting 'colour'; "),
    ],
)
def test_bad_settings(changes, text):
    """The setting, the value and what would do are named."""
    with pytest.raises(SettingsError, match=text):
        Settings.of(**changes)
    with pytest.raises(SettingsError, match=text):
        Settings().changed(**changes)


def test_one_line_per_problem():
    """All problems are reported at once."""
    with pytest.raises(SettingsError) as caught:
        Settings.of(penalty="tiny", memory=0, sigma=3)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, False), ({"centres_from": "pooled"}, True), ({"cover": True}, True)],
)
def test_data_dependent(changes, expected):
    """Choices that look at data are known as such."""
    assert Settings.of(**changes).data_dependent is expected


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_json(name):
    """They are stored with every model."""
    settings = preset(name).settings.changed(penalty="smallest", tolerance=1e-7)
    assert Settings.of(**json.loads(settings.model_dump_json())) == settings


@pytest.mark.parametrize(
    ("name", "widths", "n_centres", "n_reference", "expected", "batches"),
    [
        ("expo1d", (0.1, 0.3, 0.7, 1.4, 3.0), 1000, 200_000, 16_000, 8),
        ("dimuon5d", (0.8, 1.9, 3.0, 4.4, 6.6), 10_000, 40_000, 8_000, 4),
        ("cmsl1", (10.5,), 10_000, 10_000_000, 1_000_000, 5),
    ],
)
def test_presets(name, widths, n_centres, n_reference, expected, batches):
    """The values of the paper, and defaults for the rest."""
    assert preset(name) == Preset(
        name=name,
        settings=Settings(widths=widths, n_centres=n_centres, penalty=1e-6),
        n_reference=n_reference,
        expected=expected,
        batches=batches,
    )


def test_presets_cannot_be_changed():
    """Neither one of them nor the list."""
    with pytest.raises(ValidationError, match="frozen"):
        preset("expo1d").batches = 3
    with pytest.raises(TypeError):
        PRESETS["mine"] = preset("expo1d")


def test_unknown_preset():
    """The nearest name is offered."""
    with pytest.raises(SettingsError, match="unknown preset 'expo'; nearest: 'expo1d'"):
        preset("expo")
