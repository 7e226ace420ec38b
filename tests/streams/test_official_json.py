import json

import pytest

from puridiver.errors import ManifestError
from puridiver.streams import from_json, make_stream
from puridiver.streams import official_json as split_files

from .samples import small_source
from .splits import image_names, write_json

SOURCE = small_source()
STREAM = make_stream(SOURCE, noise="sym-40", seed=1)


def change_row(path, number, **changes):
    """Change one row, counted from 1; a value of None deletes the key."""
    rows = json.loads(path.read_text())
    row = {**rows[number - 1], **changes}
    rows[number - 1] = {key: value for key, value in row.items() if value is not None}
    path.write_text(json.dumps(rows))


def test_a_folder_gives_the_stream_asked_for_among_others(tmp_path):
    write_json(tmp_path, SOURCE, STREAM)
    write_json(tmp_path, SOURCE, make_stream(SOURCE, noise="sym-40", seed=2))
    write_json(tmp_path, SOURCE, make_stream(SOURCE, noise="asym-40", seed=1))
    found = from_json(tmp_path, SOURCE, "sym40", 1, listed=True)
    assert found.order.tolist() == STREAM.order.tolist()
    assert found.labels.tolist() == STREAM.labels.tolist()
    assert found.task_ends == STREAM.task_ends
    assert (found.seed, found.noise, found.minor_share) == (1, "sym", 0.1)


def test_a_folder_alone_does_not_say_which_stream(tmp_path):
    with pytest.raises(ValueError, match="noise and seed should be given"):
        from_json(tmp_path, SOURCE)


def test_missing_and_disordered_tasks_are_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    with pytest.raises(ManifestError, match=r"tasks 0 to 4 in order, but got tasks \[1, 0, 2, 3, 4\]"):
        from_json([paths[1], paths[0], *paths[2:]], SOURCE)
    paths[4].unlink()
    with pytest.raises(ManifestError, match=r"but got tasks \[0, 1, 2, 3\]"):
        from_json(tmp_path, SOURCE, "sym40", 1)
    with pytest.raises(ManifestError, match="but got tasks"):
        from_json([], SOURCE)


def test_files_of_different_streams_and_other_names_are_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    others = write_json(tmp_path, SOURCE, make_stream(SOURCE, noise="sym-40", seed=2))
    with pytest.raises(ManifestError, match="belong to one stream"):
        from_json([*paths[:4], others[4]], SOURCE)
    with pytest.raises(ManifestError, match=r"rows\.json: should be named like"):
        from_json([tmp_path / "rows.json"], SOURCE)


def test_two_files_for_a_task_are_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    (tmp_path / paths[0].name.replace("blurry10", "blurry30")).write_text(paths[0].read_text())
    with pytest.raises(ManifestError, match="two files for task 0"):
        from_json(tmp_path, SOURCE, "sym40", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"klass": "zebra"}, "klass should be a class of the data, but got 'zebra'"),
        ({"klass": None}, "but got None"),
        ({"true_label": 10}, "true_label should be an integer from 0 to 9, but got 10"),
        ({"true_label": None}, "true_label should be an integer from 0 to 9, but got None"),
        ({"true_label": True}, "but got True"),
        ({"label": -1}, "label should be a number that occurs as true_label, but got -1"),
        ({"label": "3"}, "but got '3'"),
        ({"file_name": "train/class-0/9999.png"}, "file_name should be|has images 1 to 30, but got 9999"),
        ({"file_name": "../../secret.png"}, "file_name should be train/"),
        ({"file_name": None}, "file_name should be train/"),
    ],
)
def test_a_damaged_row_is_named_with_its_number(changes, message, tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    change_row(paths[2], 7, **changes)
    with pytest.raises(ManifestError, match=rf"task2\.json: row 7 \(counted from 1\): .*({message})"):
        from_json(paths, SOURCE)


def test_an_image_number_outside_its_class_is_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    klass = json.loads(paths[1].read_text())[4]["klass"]
    change_row(paths[1], 5, file_name=f"train/{klass}/31.png")
    with pytest.raises(ManifestError, match=rf"row 5 .*: '{klass}' has images 1 to 30, but got 31"):
        from_json(paths, SOURCE)


def test_an_image_that_comes_twice_is_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    first = json.loads(paths[0].read_text())[0]
    change_row(paths[3], 2, **first)
    with pytest.raises(ManifestError, match=r"task3\.json: row 2 .*already come"):
        from_json(paths, SOURCE)


def test_a_class_number_that_changes_its_class_is_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    row = json.loads(paths[0].read_text())[9]
    change_row(paths[0], 10, true_label=(row["true_label"] + 1) % 10)
    with pytest.raises(ManifestError, match=r"goes with .* here, elsewhere not"):
        from_json(paths, SOURCE)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"klass": '])
def test_files_that_are_no_list_of_rows_are_refused(text, tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    paths[1].write_text(text)
    with pytest.raises(ManifestError, match=r"task1\.json"):
        from_json(paths, SOURCE)


def test_the_order_of_a_test_file(tmp_path):
    names = image_names(SOURCE, "test")
    wanted = [i for i, label in enumerate(SOURCE.test.labels.tolist()) if label in (3, 8)][::-1]
    rows = [
        {"klass": names[i].split("/")[1], "file_name": names[i], "label": 0 if "class-3" in names[i] else 1}
        for i in wanted
    ]
    path = tmp_path / "small_test_rand1_cls2_task0.json"
    path.write_text(json.dumps(rows))
    assert split_files.test_order_from_json(path, SOURCE).tolist() == wanted
    change_row(path, 3, file_name=names[wanted[2]].replace("test/", "train/"))
    with pytest.raises(ManifestError, match=r"row 3 .*file_name should be test/"):
        split_files.test_order_from_json(path, SOURCE)


def test_one_task_can_be_read_alone(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    index, labels = split_files.read_task(paths[0], SOURCE)
    part = STREAM.task_slice(0)
    assert index.tolist() == STREAM.order[part].tolist()
    assert labels.tolist() == STREAM.labels[part].tolist()
