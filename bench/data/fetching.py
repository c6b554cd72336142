"""Get a missing data set: from a local copy, from torchvision's mirrors, or from its public address.

Only an explicit `fetch` uses the network. A download is bounded in size and time, and tried several times. Only content
with the known SHA-256 is stored, under the file names of the repository.
"""

from __future__ import annotations

import gzip
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bench.core.errors import ConfigError, DataCorrupt, DataMissing, MissingFramework
from bench.core.files import is_there, read_file, reason, refuse_shipped, write_atomically
from bench.data import notmnist
from bench.data.files import GZIP_MAGIC, STORED_NAME, copy_at, decode_idx, file_limit, find_in, layouts, read_idx
from bench.data.manifest import DataFile, DatasetManifest, datasets_folder, manifest
from bench.data.torchvision_shim import import_datasets

ATTEMPTS = 3
RETRY_WAIT_S = 1.0  # before the second attempt, twice that before the third
SILENCE_S = 20.0  # longest wait for the next byte
DOWNLOAD_S = 600.0  # for one file
CHUNK = 1 << 16
OTHER_COPY = "give another copy with --from PATH"

T = TypeVar("T")


def fetch(name: str, dest: Path | None = None, source: Path | None = None) -> list[Path]:
    """Put a data set into `dest`/NAME (by default the repository's datasets/NAME) and return its files.

    Intact files stay. Broken files are renamed to NAME.TIME.untrusted, and fetched again. A generated set has no files.

    Args:
        name: the data set.
        dest: folder that will hold the folder NAME.
        source: a local copy: a folder that holds the files (directly, in NAME/, or as torchvision keeps them), or
            for notmnist459 its zip, npz or folder. None: torchvision's mirrors, or the public address.

    Raises:
        ConfigError: unknown name, or `source` does not exist.
        StoreError: `dest` cannot be written.
        DataMissing: the copy lacks a file, or no address could be reached.
        DataCorrupt: the copy's content is not the known one.
        MissingFramework: torchvision, which knows the mirrors, is needed and not installed.
    """
    known = manifest(name)
    if source is not None and not os.path.exists(source):
        raise ConfigError(f"the local copy {source} does not exist; give the path of a file or folder")
    folder = (dest if dest is not None else datasets_folder()) / name
    if known.kind == "png-archive":
        return [_fetch_archive(known, folder, source)]
    return [_fetch_idx(known, file, folder, source) for file in known.files.values()]


def _fetch_idx(known: DatasetManifest, file: DataFile, folder: Path, source: Path | None) -> Path:
    path, limit = folder / file.gz, file_limit(file.shape)
    if is_intact(lambda: read_idx(path, file.shape, file.sha256)):
        return path
    refuse_shipped(path)
    if source is not None:
        copy = find_in([source, *layouts(source, known)], file)
        if copy is None:
            raise DataMissing(f"data set '{known.name}': the local copy {source} has no {file.gz}; give its folder")
        data = _checked_idx(read_file(copy, limit, OTHER_COPY), str(copy), file)
    else:
        data = first_good(known.name, _mirrors(known, file), limit, lambda data, url: _checked_idx(data, url, file))
    set_aside(path)
    write_atomically(path, data if data[:2] == GZIP_MAGIC else gzip.compress(data, mtime=0))
    return path


def _fetch_archive(known: DatasetManifest, folder: Path, source: Path | None) -> Path:
    path = folder / STORED_NAME
    if is_intact(lambda: notmnist.load_from(path, known)):
        return path
    refuse_shipped(path)
    if source is not None:
        copy = copy_at(source)
        if copy is None:
            raise DataMissing(f"data set '{known.name}': the local copy {source} has no zip and no folders A-J in it")
        images, labels = notmnist.load_from(copy, known)
    else:
        images, labels = first_good(
            name=known.name,
            urls=[known.url],
            limit=notmnist.MAX_ARCHIVE_BYTES,
            check=lambda data, url: notmnist.load_archive(data, url, known),
        )
    set_aside(path)
    write_atomically(path, notmnist.stored(images, labels))
    return path


def is_intact(read: Callable[[], object]) -> bool:
    """Return whether `read` finds the known bytes."""
    try:
        read()
    except DataCorrupt:
        return False
    return True


def set_aside(path: Path) -> None:
    """Rename a broken file, so that the user can look at it."""
    if is_there(path):
        try:
            path.rename(path.with_name(f"{path.name}.{time.time_ns()}.untrusted"))
        except OSError as error:
            raise ConfigError(
                f"{path}, which is broken, cannot be set aside ({reason(error)}); move it away"
            ) from error


def _checked_idx(data: bytes, where: str, file: DataFile) -> bytes:
    decode_idx(data, where, file.shape, file.sha256, OTHER_COPY)
    return data


def _mirrors(known: DatasetManifest, file: DataFile) -> list[str]:
    """Return the addresses of a file that torchvision's data set class knows."""
    if not known.torchvision:
        raise DataMissing(f"data set '{known.name}' has no public address; to get it: {known.how}")
    try:
        data_set = getattr(import_datasets(), known.torchvision)
    except MissingFramework as error:
        raise MissingFramework(
            f"the addresses of '{known.name}' come from torchvision: {error}, or use --from"
        ) from error
    return [mirror + file.gz for mirror in data_set.mirrors]


def first_good(
    name: str,
    urls: Sequence[str],
    limit: int,
    check: Callable[[bytes, str], T],
    copy: str = "data fetch {} --from PATH",
) -> T:
    """Return `check`(bytes, address) of the first download that passes it; try every address several times.

    Args:
        name: the data set, for errors.
        urls: its addresses.
        limit: the most bytes that a download may have.
        check: raises DataCorrupt for bytes that are not the known ones.
        copy: the command of this suite that takes a local copy of the data set `{}`.

    Raises:
        DataMissing: no address gave the known bytes.
    """
    failure = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(RETRY_WAIT_S * attempt)
        for url in urls:
            try:
                return check(_download(url, limit), url)
            except DataCorrupt as error:
                failure = str(error)
            except urllib.error.HTTPError as error:
                failure = f"{url}: HTTP status {error.code}"
                error.close()  # an HTTPError is an open response
            except urllib.error.URLError as error:
                inner = error.reason
                failure = f"{url}: {reason(inner) if isinstance(inner, OSError) else inner}"
            except (OSError, http.client.HTTPException) as error:
                failure = f"{url}: {reason(error) if isinstance(error, OSError) else type(error).__name__}"
    raise DataMissing(
        f"data set '{name}' could not be fetched in {ATTEMPTS} attempts ({failure}); "
        f"check the network, or give a local copy: python -m bench {copy.format(name)}"
    )


def _download(url: str, limit: int) -> bytes:
    """Return the bytes at `url`, at most `limit` of them, within `DOWNLOAD_S`."""
    deadline = time.monotonic() + DOWNLOAD_S
    request = urllib.request.Request(url, headers={"User-Agent": "bnn-uncertainty-bench"})
    data = bytearray()
    with urllib.request.urlopen(request, timeout=SILENCE_S) as answer:
        # `read` would wait for CHUNK bytes, for ever if a server sends a byte now and then; `read1` does not.
        while chunk := answer.read1(CHUNK):
            data += chunk
            if len(data) > limit:
                raise DataCorrupt(f"{url}: more than {limit:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not finished within {DOWNLOAD_S:.0f} s")
    return bytes(data)
