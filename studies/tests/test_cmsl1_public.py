"""CMS-L1-24D: files in the public layout, sound and broken."""

import h5py
import numpy as np
import pytest

from gofstream.errors import EmptyError, GofstreamError, InputError, NonFiniteError
from gofstream_studies.datasets.cmsl1 import COLUMNS, UNITS, features, read_public
from gofstream_studies.datasets.cmsl1 import public as module

NAMES = [b"Pt", b"Eta", b"Phi", b"Class"]
CLASSES = [b"MET_class_1", b"Four_Ele_class_2", b"Four_Mu_class_3", b"Ten_Jet_class_4"]
ROW_CLASS = np.repeat([1, 2, 3, 4], [1, 4, 4, 10])


def public_events(n, seed=1):
    """Make events with the right classes, of which some objects were not seen."""
    rng = np.random.default_rng(seed)
    events = np.empty((n, 19, 4))
    events[..., 0] = np.sort(rng.exponential(30, (n, 19)))[:, ::-1]
    events[..., 1] = rng.normal(size=(n, 19))
    events[..., 2] = rng.uniform(-np.pi, np.pi, (n, 19))
    events[..., 3] = ROW_CLASS
    events[:, 0, 1] = 0
    absent = rng.random((n, 19)) < 0.5
    absent[:, 0] = False
    events[absent] = 0
    # Some removed jets keep their φ and class.
    events[absent[:, 9], 9, 2:] = 1.5, 4
    return events


def write(path, events, names=NAMES, classes=CLASSES, **extra):
    """Write a file as the public ones are, compressed as they are."""
    with h5py.File(path, "w") as file:
        file.create_dataset("Particles", data=events, compression="gzip")
        file.create_dataset("Particles_Names", data=np.array(names), compression="gzip")
        file.create_dataset("Particles_Classes", data=np.array(classes), compression="gzip")
        for name, values in extra.items():
            file.create_dataset(name, data=values)
    return path


def test_a_public_file_is_read(tmp_path):
    """Every number where it belongs; padding is zero; other datasets are passed over."""
    events = public_events(300)
    path = write(tmp_path / "Ato4l_lepFilter_13TeV_filtered.h5", events, EvtId=np.arange(300))
    sample = read_public(path)
    assert sample.columns == COLUMNS
    assert sample.units == UNITS
    assert sample.name == "Ato4l_lepFilter_13TeV_filtered"
    assert sample.values.dtype == np.float32
    np.testing.assert_array_equal(sample.values, features(events))
    j = COLUMNS.index("jet1_phi")
    np.testing.assert_array_equal(sample.values[events[:, 9, 0] == 0, j], 0)


def test_files_are_read_in_pieces_one_after_another(tmp_path, monkeypatch):
    """Small pieces give what one piece gives; progress counts events."""
    monkeypatch.setattr(module, "_ROWS", 70)
    parts = [public_events(200, 1), public_events(33, 2)]
    paths = [write(tmp_path / f"{k}.h5", part) for k, part in enumerate(parts)]
    seen = []
    sample = read_public(map(str, paths), progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_array_equal(sample.values, features(np.concatenate(parts)))
    assert seen == [(70, 233), (140, 233), (200, 233), (233, 233)]


def test_labels_as_text_of_any_length_are_understood(tmp_path):
    """HDF5 knows more than one kind of string."""
    events = public_events(5)
    path = write(tmp_path / "a.h5", events)
    with h5py.File(path, "r+") as file:
        del file["Particles_Names"]
        file.create_dataset("Particles_Names", data=["Pt", "Eta", "Phi", "Class"])
    assert len(read_public(path)) == 5


@pytest.mark.parametrize(
    ("names", "classes", "message"),
    [
        ([b"Eta", b"Pt", b"Phi", b"Class"], CLASSES, "'Particles_Names' says Eta, Pt"),
        (NAMES[:3], CLASSES, "'Particles_Names' says Pt, Eta, Phi, not Pt"),
        (NAMES, [CLASSES[k] for k in (0, 2, 1, 3)], "'Particles_Classes' says MET.*Mu.*Ele"),
    ],
)
def test_a_mislabelled_file_is_refused(tmp_path, names, classes, message):
    """Numbers in another order would be taken for what they are not."""
    path = write(tmp_path / "odd.h5", public_events(5), names, classes)
    with pytest.raises(InputError, match=rf"odd\.h5: dataset {message}.*reorder"):
        read_public(path)


@pytest.mark.parametrize("shape", [(5, 19), (5, 19, 3), (5, 18, 4)])
def test_another_shape_is_refused(tmp_path, shape):
    """The shape found and the one wanted."""
    path = write(tmp_path / "odd.h5", np.zeros(shape))
    with pytest.raises(InputError, match=r"odd\.h5: .*shape \(5, .*not \(events, 19 objects"):
        read_public(path)


@pytest.mark.parametrize("name", ["Particles", "Particles_Names", "Particles_Classes"])
def test_a_missing_dataset_is_named(tmp_path, name):
    """And what is there instead."""
    path = write(tmp_path / "odd.h5", public_events(5), Jets=np.zeros(3))
    with h5py.File(path, "r+") as file:
        del file[name]
    with pytest.raises(InputError, match=rf"odd\.h5: has no dataset '{name}', only Jets"):
        read_public(path)


def test_a_group_or_text_in_place_of_events_is_refused(tmp_path):
    """Only floating-point numbers are events."""
    path = write(tmp_path / "odd.h5", public_events(5))
    with h5py.File(path, "r+") as file:
        del file["Particles"]
        file.create_group("Particles")
    with pytest.raises(InputError, match="has no dataset 'Particles'"):
        read_public(path)
    write(path, np.full((2, 19, 4), b"x"))
    with pytest.raises(InputError, match=r"odd\.h5: dataset 'Particles' holds .*S1"):
        read_public(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_named(tmp_path, monkeypatch, bad):
    """File, object, quantity and event, counted over all pieces."""
    monkeypatch.setattr(module, "_ROWS", 10)
    events = public_events(25)
    events[17, 5, 1] = bad
    path = write(tmp_path / "odd.h5", events)
    with pytest.raises(NonFiniteError, match=r"odd\.h5: Eta of mu1 is (nan|inf) in event 17 "):
        read_public(path)


def test_objects_in_another_order_are_refused(tmp_path):
    """Muons where electrons should be, although the labels say otherwise."""
    events = public_events(25)
    events[:, 1:9] = events[:, [5, 6, 7, 8, 1, 2, 3, 4]]
    path = write(tmp_path / "odd.h5", events)
    with pytest.raises(InputError, match=r"odd\.h5: \w+ in event \d+ .* has class [23], not [23]"):
        read_public(path)


def test_files_without_events_are_refused(tmp_path):
    """No file, no bytes, no rows, no names."""
    with pytest.raises(InputError, match=r"none\.h5: there is no such file"):
        read_public(tmp_path / "none.h5")
    empty = tmp_path / "empty.h5"
    empty.touch()
    with pytest.raises(EmptyError, match=r"empty\.h5: the file is empty"):
        read_public(empty)
    with pytest.raises(EmptyError, match=r"rows\.h5: dataset 'Particles' has no events"):
        read_public(write(tmp_path / "rows.h5", np.zeros((0, 19, 4))))
    with pytest.raises(EmptyError, match="no files were given"):
        read_public([])


def test_text_is_not_hdf5(tmp_path):
    """Such as the page of an error saved under the name of the file."""
    path = tmp_path / "page.h5"
    path.write_text("<html>404</html>")
    with pytest.raises(InputError, match=r"page\.h5: the file is not HDF5"):
        read_public(path)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 0.999])
def test_a_truncated_file_is_named(tmp_path, share):
    """Wherever a download stopped, the message names the file and says what to do."""
    whole = write(tmp_path / "whole.h5", public_events(400))
    cut = tmp_path / "cut.h5"
    cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    with pytest.raises(GofstreamError, match=r"cut\.h5: .*fetch the file again"):
        read_public(cut)


def test_damage_inside_is_named(tmp_path):
    """Bytes that changed on the way: the compressed piece cannot be unpacked."""
    path = write(tmp_path / "odd.h5", public_events(400))
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"odd\.h5: events 0 to 399 cannot be read .*fetch"):
        read_public(path)


def test_one_bad_file_stops_before_any_is_read(tmp_path):
    """Half an hour of reading is not lost to a typing mistake at the end."""
    good = write(tmp_path / "good.h5", public_events(5))
    seen = []
    with pytest.raises(InputError, match=r"none\.h5"):
        read_public([good, tmp_path / "none.h5"], progress=lambda *count: seen.append(count))
    assert not seen
