"""Fetching MDPLIB files: from a folder, an archive, a single file, a URL; what does not parse is refused."""

from __future__ import annotations

import functools
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fedselect.errors import DataError
from fedselect.recording import fetch_mdplib
from solvers.dispersion import DispersionProblem, read_mdplib, write_mdplib


@pytest.fixture
def library(tmp_path):
    """Two instances in folders of their own, with a table that knows one of them under two m."""
    rng = np.random.default_rng(1)
    for name, n, m in (("GKD-x_1_n6_m2", 6, 2), ("MDG-x_1_n5_m3", 5, 3)):
        folder = tmp_path / "library" / name.partition("-")[0]
        folder.mkdir(parents=True)
        points = rng.random((n, 2))
        distances = np.linalg.norm(points[:, None] - points, axis=2)
        write_mdplib(DispersionProblem(distances, size=m, weight=0.5), folder / f"{name}.txt")
    table = "name,n,m,best_known,source\nGKD-x_1_n6_m2,6,2,1.25,brute force\nGKD-x_1_n6_m2,6,4,5.5,\n"
    (tmp_path / "library" / "best_known.csv").write_text(table)
    return tmp_path / "library"


@pytest.fixture
def archive(library):
    path = library.parent / "mdplib.zip"
    with zipfile.ZipFile(path, "w") as stream:
        for file in library.rglob("*.*"):
            stream.write(file, file.relative_to(library))
    return path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        """Say nothing."""


@pytest.fixture
def server(archive):
    serving = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=archive.parent))
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


EXPECTED = [("GKD-x_1_n6_m2.txt", 6, 2, 1.25), ("GKD-x_1_n6_m2.txt", 6, 4, 5.5), ("MDG-x_1_n5_m3.txt", 5, 3, None)]


def check(fetched, out):
    assert [(each.path.name, each.n, each.size, each.best_known) for each in fetched] == EXPECTED
    for each in fetched:
        assert each.path.parent == out
        assert read_mdplib(each.path, each.size).n == each.n
    assert fetched[0].source == "brute force"


def test_from_a_folder(library, tmp_path):
    check(fetch_mdplib(str(library), tmp_path / "out"), tmp_path / "out")
    check(fetch_mdplib(str(tmp_path / "out"), tmp_path / "out"), tmp_path / "out")  # the table came along


def test_instances_come_by_name_whatever_their_folders(library, tmp_path):
    (library / "AAA").mkdir()
    (library / "MDG" / "MDG-x_1_n5_m3.txt").rename(library / "AAA" / "MDG-x_1_n5_m3.txt")
    check(fetch_mdplib(str(library), tmp_path / "out"), tmp_path / "out")


def test_from_an_archive_as_path_and_as_url(archive, tmp_path):
    check(fetch_mdplib(str(archive), tmp_path / "one"), tmp_path / "one")
    check(fetch_mdplib(archive.as_uri(), tmp_path / "two"), tmp_path / "two")


def test_over_http(server, tmp_path):
    check(fetch_mdplib(f"{server}/mdplib.zip", tmp_path / "out"), tmp_path / "out")
    (one,) = fetch_mdplib(f"{server}/library/MDG/MDG-x_1_n5_m3.txt", tmp_path / "alone")
    assert (one.n, one.size, one.best_known) == (5, 3, None)
    with pytest.raises(DataError, match=r"cannot fetch .*/nothing.zip: File not found"):
        fetch_mdplib(f"{server}/nothing.zip", tmp_path / "nothing")


def test_from_one_file_with_a_table(library, tmp_path):
    one = library / "GKD" / "GKD-x_1_n6_m2.txt"
    fetched = fetch_mdplib(str(one), tmp_path / "out", library / "best_known.csv")
    assert [(each.size, each.best_known) for each in fetched] == [(2, 1.25), (4, 5.5)]


def test_a_folder_may_be_fetched_into_itself(library):
    fetch_mdplib(str(library / "GKD"), library / "GKD")
    assert read_mdplib(library / "GKD" / "GKD-x_1_n6_m2.txt").n == 6


def test_what_does_not_parse_is_refused_and_nothing_written(library, archive, tmp_path):
    (library / "readme.txt").write_text("hello\n")
    with pytest.raises(DataError, match=r"readme.txt is not an MDPLIB file"):
        fetch_mdplib(str(library), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(DataError, match="neither a folder"):
        fetch_mdplib(str(archive), tmp_path / "out")


def test_other_mistakes_are_sentences(library, tmp_path):
    with pytest.raises(DataError, match="there is no file or folder"):
        fetch_mdplib(str(tmp_path / "nowhere"), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"there is no .txt file in"):
        fetch_mdplib(str(tmp_path / "empty"), tmp_path / "out")
    (library / "again").mkdir()
    twice = library / "again" / "GKD-x_1_n6_m2.txt"
    twice.write_bytes((library / "GKD" / twice.name).read_bytes())
    with pytest.raises(DataError, match=r"holds GKD-x_1_n6_m2.txt twice"):
        fetch_mdplib(str(library), tmp_path / "out")
    twice.unlink()
    (tmp_path / "table.csv").write_text("name,m\nGKD-x_1_n6_m2,2\n")
    with pytest.raises(DataError, match=r"table.csv is no table of best known values"):
        fetch_mdplib(str(library), tmp_path / "out", tmp_path / "table.csv")
