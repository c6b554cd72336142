"""Approaches in a folder of their own, for tests of runs: copies of others, and one whose training waits for a file."""

from pathlib import Path

from bench.plan import plugins, registry
from bench.plan.trained_runs import Selection, trained_runs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE, TOY = ROOT / "examples" / "my_dropout", ROOT / "implementations" / "toy_mlp"
WAITING = """
_interval = Seeds.epoch


def _wait(self, epoch):
    from pathlib import Path
    from time import sleep

    while epoch == 3 and not Path({file!r}).exists():
        sleep(0.01)
    self._n_steps = 5
    return _interval(self, epoch)


Seeds.epoch = _wait
"""


def put(folder, monkeypatch, name, text="", source=EXAMPLE):
    """Copy an approach, without its document and with some more code, to a folder; let the suite find it there."""
    manifest = source.with_suffix(".toml").read_text().splitlines(keepends=True)
    (folder / f"{name}.py").write_text(source.with_suffix(".py").read_text() + text)
    (folder / f"{name}.toml").write_text("".join(line for line in manifest if not line.startswith("document")))
    monkeypatch.setenv(plugins.VARIABLE, str(folder))
    registry._look.cache_clear()


def put_waiting(folder, monkeypatch):
    """Put an approach `waits` there. It has six short epochs; the third begins when the returned file exists.

    A process that is killed while it waits has trained two of six epochs, however fast the machine is.
    """
    file = folder / "go"
    put(folder, monkeypatch, "waits", WAITING.format(file=str(file)), TOY)
    return file


def chosen(name, **options):
    """Return the trained runs of an approach with recipe published and protocol common."""
    return trained_runs(Selection(approaches=(name,), recipes=("published",), protocols=("common",), **options))
