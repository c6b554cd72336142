"""Fetching: mirrors, retries, local copies; a failure is one line and leaves no file."""

import contextlib
import gzip
import http.server
import itertools
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from bench.core.errors import ConfigError, DataCorrupt, DataMissing, MissingFramework, StoreError
from bench.data import fetching, torchvision_shim
from bench.data.fetching import fetch
from bench.data.files import read_idx
from bench.data.manifest import manifest
from tests.data.small_sets import (
    IMAGES,
    LABELS,
    LETTER_LABELS,
    LETTER_PIXELS,
    PIXELS,
    archive,
    fashion,
    is_eleven,
    letters,
    one_line,
    public_archive,
    put_fashion,
    sha256,
)


class Server(http.server.ThreadingHTTPServer):
    """Serves bytes by path. A number is served as a status. Of a list, each request gets the next entry or the last."""

    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        answer = self.server.answers.get(self.path.lstrip("/"), 404)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        self.send_response(answer if isinstance(answer, int) else 200)
        self.end_headers()
        if answer == b"endless":
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(bytes(65536))
        elif isinstance(answer, bytes):
            self.wfile.write(answer)

    def log_message(self, *given):
        pass


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(answers):
        server = Server(answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        mirror = SimpleNamespace(mirrors=[server.address + "down/", server.address])
        monkeypatch.setattr(fetching, "import_datasets", lambda: SimpleNamespace(FashionMNIST=mirror))
        return server

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_fetch_tries_mirrors_again_until_the_content_is_right(folder, serve):
    images, labels = gzip.compress(IMAGES, mtime=0), gzip.compress(LABELS, mtime=0)
    shutil.rmtree(folder / "fashion_mnist")
    server = serve({"images.gz": [503, images[:-5], images], "labels.gz": labels})
    assert fetch("fashion_mnist") == [folder / "fashion_mnist" / f"{name}.gz" for name in ("images", "labels")]
    # Three attempts at two mirrors for the images, the first attempt's two mirrors for the labels.
    assert server.asked == ["/down/images.gz", "/images.gz"] * 3 + ["/down/labels.gz", "/labels.gz"]
    assert (folder / "fashion_mnist" / "images.gz").read_bytes() == images
    assert fashion().x.shape == (2, 784)


def test_what_is_intact_is_not_fetched_and_what_is_broken_is_replaced(folder, serve):
    server = serve({"labels.gz": gzip.compress(LABELS)})
    put_fashion(folder / "fashion_mnist", labels=b"broken")
    fetch("fashion_mnist")
    assert server.asked == ["/down/labels.gz", "/labels.gz"]
    assert fashion().x.shape == (2, 784)
    (aside,) = (folder / "fashion_mnist").glob("labels.gz.*.untrusted")
    assert aside.read_bytes() == b"broken"


@pytest.mark.parametrize(
    "answer", [b"endless", gzip.compress(bytes(10**7)), b"<html>log in</html>", b"", 404], ids=itertools.count()
)
def test_a_bad_download_leaves_nothing_behind(folder, serve, answer):
    shutil.rmtree(folder / "fashion_mnist")
    serve({"images.gz": answer})
    with one_line(DataMissing, "3 attempts", "images.gz", "--from PATH"):
        fetch("fashion_mnist")
    assert not (folder / "fashion_mnist").exists()


def test_a_download_that_drips_ends(folder, monkeypatch):
    """The server sends a byte now and then, so that no wait for a byte is too long and no chunk becomes full."""
    drip = SimpleNamespace(read1=lambda size: b"x")
    seconds = itertools.count(step=fetching.DOWNLOAD_S / 100)
    shutil.rmtree(folder / "fashion_mnist")
    mirror = SimpleNamespace(mirrors=["http://drips/"])
    monkeypatch.setattr(fetching, "import_datasets", lambda: SimpleNamespace(FashionMNIST=mirror))
    monkeypatch.setattr(fetching.urllib.request, "urlopen", lambda *_, **__: contextlib.nullcontext(drip))
    monkeypatch.setattr(fetching.time, "monotonic", lambda: next(seconds))
    with pytest.raises(DataMissing, match="not finished within 600 s"):
        fetch("fashion_mnist")


def test_without_a_network_a_fetch_is_one_line(folder):
    with one_line(DataMissing, "Connection refused", "--from PATH"):  # nothing listens at the manifest's address
        fetch("notmnist459")
    assert not (folder / "notmnist459").exists()


def test_the_public_archive_is_fetched_decoded_and_stored(folder, serve):
    server = serve({"a.zip": archive(public_archive())})
    text = (folder / "notmnist459.toml").read_text()
    (folder / "notmnist459.toml").write_text(
        text.replace("http://127.0.0.1:9/nothing-listens-here.zip", server.address + "a.zip")
    )
    (stored,) = fetch("notmnist459")
    assert stored == folder / "notmnist459" / "notmnist459.npz"
    assert is_eleven(letters())
    with np.load(stored, allow_pickle=False) as arrays:  # what others can read too
        assert arrays["images"].tobytes() == LETTER_PIXELS
        assert arrays["labels"].tobytes() == LETTER_LABELS
    assert fetch("notmnist459") == [stored]
    assert server.asked == ["/a.zip"]


def test_a_local_copy_needs_no_network(folder, tmp_path):
    shutil.move(folder / "fashion_mnist", tmp_path / "copy")
    fetch("fashion_mnist", source=tmp_path / "copy")
    assert fashion().x.shape == (2, 784)

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "images").write_bytes(IMAGES)
    (tmp_path / "plain" / "labels").write_bytes(LABELS)
    paths = fetch("fashion_mnist", dest=tmp_path / "other", source=tmp_path / "plain")
    assert [path.parent for path in paths] == [tmp_path / "other" / "fashion_mnist"] * 2
    assert np.array_equal(read_idx(paths[0], PIXELS.shape, sha256(IMAGES)), PIXELS)

    (tmp_path / "letters.zip").write_bytes(archive(public_archive()))
    fetch("notmnist459", source=tmp_path / "letters.zip")
    assert is_eleven(letters())


def test_a_bad_local_copy_is_refused(folder, tmp_path):
    shutil.rmtree(folder / "fashion_mnist")
    for name in ("fashion_mnist", "notmnist459"):
        with pytest.raises(ConfigError, match="does not exist"):
            fetch(name, source=tmp_path / "nothing")
        (tmp_path / "empty").mkdir(exist_ok=True)
        with one_line(DataMissing, str(tmp_path / "empty")):
            fetch(name, source=tmp_path / "empty")
    put_fashion(tmp_path / "bad", images=gzip.compress(IMAGES[:-1] + b"?"))
    with one_line(DataCorrupt, "SHA-256", "another copy"):
        fetch("fashion_mnist", source=tmp_path / "bad")
    assert not (folder / "fashion_mnist").exists()


def test_a_set_without_a_public_address_says_how_to_get_it(folder):
    assert fetch("noise_gaussian") == []  # it is drawn
    with one_line(DataMissing, "tools/make_letters.py"):
        fetch("letters")


def test_what_cannot_be_written_is_one_line(folder, tmp_path):
    shutil.move(folder / "fashion_mnist", tmp_path / "copy")
    (folder / "fashion_mnist").write_bytes(b"a file in the way")
    with one_line(StoreError, "cannot write", str(folder / "fashion_mnist"), "Not a directory"):
        fetch("fashion_mnist", source=tmp_path / "copy")


def test_without_torchvision_the_mirrors_are_unknown_and_all_else_works(folder, monkeypatch):
    monkeypatch.setattr(torchvision_shim.importlib.util, "find_spec", lambda name: None)
    assert not torchvision_shim.make_importable()
    assert fashion().x.shape == (2, 784)
    shutil.rmtree(folder / "fashion_mnist")
    with one_line(MissingFramework, "-c constraints.txt -e '.[torchvision]'", "--from"):
        fetch("fashion_mnist")


def test_a_torchvision_that_does_not_import_is_one_line(monkeypatch):
    def fail(name):
        raise RuntimeError("operator torchvision::roi_align does not exist\nand more")

    spec = SimpleNamespace(submodule_search_locations=[])
    monkeypatch.setattr(torchvision_shim.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(torchvision_shim.importlib, "import_module", fail)
    with one_line(MissingFramework, "roi_align", "made for torch"):
        torchvision_shim.import_datasets()


def test_torchvision_knows_the_files_of_the_manifests():
    if torchvision_shim.importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    for name in ("mnist", "fashion_mnist"):
        known = manifest(name)
        data_set = getattr(torchvision_shim.import_datasets(), known.torchvision)
        assert {file.gz for file in known.files.values()} <= {resource for resource, _ in data_set.resources}
        assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in data_set.mirrors)
