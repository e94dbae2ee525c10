"""Read runs of FSBench, and its history of runs, into pandas or polars.

`read` accepts a run directory and a page of ``fsb publish``. `history` reads the
index of ``fsb history``. Tables are lists of rows, or frames of pandas or
polars, whichever is installed.
"""

from __future__ import annotations

import base64
import binascii
import csv
import importlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sysconfig
import zlib
from pathlib import Path
from typing import Any, Iterator, Optional, Union

__all__ = ["Run", "ReadError", "find_fsb", "history", "read"]

Row = dict[str, Any]

# The newest schemas that this module reads.
_SCHEMAS = {"fsbench/run": 1, "fsbench/trial": 1, "fsbench/publication": 1}
# The last version of formats from before the first release. It has the number of the last of them, those of trials.
_LAST_FORMER = 4
# The checksum of a line of trials.jsonl, of all other bytes of the line.
_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}$')
# The beginning of the element that holds the run in a published page, and where it begins at the latest.
_OPENING = b'<script type="application/vnd.fsbench.run+gzip" id="fsbench-run">'
_HEAD = 4 << 10
# The largest data of a page, unpacked, in bytes.
_LARGEST = 1 << 30


class ReadError(ValueError):
    """A path that holds no run, or a run that cannot be read."""


class Run:
    """A run of FSBench.

    Attributes
    ----------
    path : pathlib.Path
        The run directory or the page.
    record : dict
        The record of the run: ``run.json``.
    publication : dict or None
        What was removed before the publication. None for a run directory.
    """

    def __init__(self, path: Path, record: Row, lines: list[Row], publication: Optional[Row]) -> None:
        self.path = path
        self.record = record
        self.publication = publication
        self._trials = lines

    def __repr__(self) -> str:
        return f"<fsbench.Run {self.record.get('name', '')!r}: {len(self._trials)} trials>"

    def trials(self, to: Optional[str] = None) -> Any:
        """Return the trials, one row per trial and metric.

        A trial without a value has one row, whose metric and value are None.

        Parameters
        ----------
        to : {"pandas", "polars", "rows"}, optional
            The kind of table. By default it is a frame of pandas or polars,
            whichever is installed, pandas first; without both it is "rows".

        Returns
        -------
        pandas.DataFrame or polars.DataFrame or list of dict
            Columns ``target``, ``workload``, ``operation``, ``block``,
            ``order``, ``attempt``, ``counts``, ``outcome``, ``error``,
            ``kernel``, ``started``, ``slice``, ``metric``, ``value``, ``unit``,
            ``better``, ``primary``. Analyses use the rows with ``counts``
            (measured, not superseded) and the outcome ``ok``; targets are
            compared by the metric that is ``primary``. Values are in base
            units: seconds, bytes, bytes or operations per second.

        Raises
        ------
        ImportError
            If the named library is not installed.
        """
        return _table(self._trial_rows(), _TRIALS, to)

    def samples(self, to: Optional[str] = None) -> Any:
        """Return the samples of trials in rounds, one row per sample.

        Sequential trials have none.

        Parameters
        ----------
        to : {"pandas", "polars", "rows"}, optional
            The kind of table, as in `Run.trials`.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame or list of dict
            Columns ``target``, ``workload``, ``block``, ``order``,
            ``attempt``, ``counts``, ``sample`` (from 0), ``operations``,
            ``seconds``, ``device_bytes``, ``device_flushes``,
            ``deferred_bytes``. The last three are None where the run did not
            observe the device.

        Raises
        ------
        ImportError
            If the named library is not installed.
        """
        return _table(self._sample_rows(), _SAMPLES, to)

    def targets(self, to: Optional[str] = None) -> Any:
        """Return the targets in the order of the plan, one row per target.

        Parameters
        ----------
        to : {"pandas", "polars", "rows"}, optional
            The kind of table, as in `Run.trials`.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame or list of dict
            Columns ``target``, ``baseline`` (whether the others are compared
            with it), ``file_system``, ``options``, ``mkfs``, ``medium``,
            ``directory``, ``driver``, ``mount_options``, ``block_size``,
            ``kernel``, ``failed``. Lists are joined to text as the program
            prints them.

        Raises
        ------
        ImportError
            If the named library is not installed.
        """
        return _table(self._target_rows(), _TARGETS, to)

    def environment(self, to: Optional[str] = None) -> Any:
        """Return facts about the machine, one row per fact.

        Parameters
        ----------
        to : {"pandas", "polars", "rows"}, optional
            The kind of table, as in `Run.trials`.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame or list of dict
            Columns ``fact`` and ``value``, both text. Facts within others have
            names with points: ``sysctls.vm.dirty_ratio``.

        Raises
        ------
        ImportError
            If the named library is not installed.
        """
        return _table(self._environment_rows(), ["fact", "value"], to)

    def _trial_rows(self) -> Iterator[Row]:
        for trial in self._trials:
            row = _common(trial)
            row.update({key: trial.get(key) for key in ("operation", "outcome", "error", "kernel", "started", "slice")})
            metrics = trial.get("metrics") or []
            for place, metric in enumerate(metrics):
                named = {key: metric.get(key) for key in ("value", "unit", "better")}
                yield {**row, "metric": metric.get("name"), **named, "primary": place == 0}
            if not metrics:
                yield {**row, "metric": None, "value": None, "unit": None, "better": None, "primary": False}

    def _sample_rows(self) -> Iterator[Row]:
        for trial in self._trials:
            samples = trial.get("samples") or {}
            row = _common(trial)
            for place, nanoseconds in enumerate(samples.get("timed_ns") or []):
                seen = {key: _item(samples.get(key), place) for key in ("device_bytes", "device_flushes", "deferred_bytes")}
                known = {"sample": place, "operations": samples.get("operations"), "seconds": nanoseconds * 1e-9}
                yield {**row, **known, **seen}

    def _target_rows(self) -> Iterator[Row]:
        made_targets = self.record.get("targets") or {}
        for place, target in enumerate(self.record["plan"]["targets"]):
            made = made_targets.get(target["name"]) or {}
            spec = target.get("file_system") or {}
            geometry = made.get("geometry") or {}
            yield {
                "target": target["name"],
                "baseline": place == 0,
                "file_system": spec.get("fs"),
                "options": ",".join(spec.get("options") or []),
                "mkfs": " ".join(spec.get("mkfs") or []),
                "medium": _medium(spec.get("medium")) if spec else None,
                "directory": target.get("directory"),
                "driver": made.get("driver"),
                "mount_options": ",".join(made.get("mount_options") or []),
                "block_size": geometry.get("block_size") or made.get("block_size"),
                "kernel": made.get("kernel") or target.get("kernel"),
                "failed": made.get("failed"),
            }

    def _environment_rows(self) -> Iterator[Row]:
        for fact, value in _flat(self.record.get("host") or {}, ""):
            yield {"fact": fact, "value": value}
        for number, segment in enumerate(self.record.get("segments") or [], 1):
            for fact, value in _flat(segment, f"segment {number}."):
                yield {"fact": fact, "value": value}


_COMMON = ["target", "workload", "block", "order", "attempt", "counts"]
_TRIALS = [
    "target", "workload", "operation", "block", "order", "attempt", "counts", "outcome", "error", "kernel", "started",
    "slice", "metric", "value", "unit", "better", "primary",
]  # fmt: skip
_SAMPLES = [*_COMMON, "sample", "operations", "seconds", "device_bytes", "device_flushes", "deferred_bytes"]
_TARGETS = [
    "target", "baseline", "file_system", "options", "mkfs", "medium", "directory", "driver", "mount_options",
    "block_size", "kernel", "failed",
]  # fmt: skip


def read(path: Union[str, "os.PathLike[str]"]) -> Run:
    """Read a run directory, or a page of ``fsb publish``.

    Parameters
    ----------
    path : str or os.PathLike
        The directory with ``run.json``, or the page.

    Returns
    -------
    Run
        The run, finished or not.

    Raises
    ------
    ReadError
        If the path holds no run, the run is damaged, or a newer program wrote
        it.
    OSError
        If a file cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        return _read_directory(path)
    return _read_page(path)


def history(store: Optional[str] = None, to: Optional[str] = None, program: Optional[str] = None) -> Any:
    """Return all values of the index of ``fsb history``, one row per series and run.

    Parameters
    ----------
    store : str, optional
        The file of the index, or its database: ``postgresql://HOST/DATABASE``.
        By default it is the one of ``fsb history`` without ``--store``.
    to : {"pandas", "polars", "rows"}, optional
        The kind of table, as in `Run.trials`. A frame writes Parquet:
        ``history().to_parquet(FILE)`` of pandas, ``write_parquet`` of polars.
    program : str, optional
        The program that reads the index. By default it is `find_fsb`.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame or list of dict
        The columns of ``fsb history export --format csv``. ``blocks`` and
        ``value`` are numbers, the value in base units. ``environment`` and
        ``labels`` are JSON.

    Raises
    ------
    ReadError
        If the program refuses the index. The message is the program's.
    FileNotFoundError
        If the program is not installed.
    ImportError
        If the named library is not installed.
    """
    command = [program or find_fsb(), "history", "export", "--format", "csv"]
    command += [] if store is None else ["--store", store]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise ReadError(done.stderr.strip())
    values = csv.DictReader(io.StringIO(done.stdout, newline=""))
    rows = ({**row, "blocks": _number(int, row["blocks"]), "value": _number(float, row["value"])} for row in values)
    return _table(rows, list(values.fieldnames or []), to)


def find_fsb() -> str:
    """Return the path of the program that the package installed.

    Returns
    -------
    str
        The program of this environment, or else the first ``fsb`` in PATH.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    own = Path(sysconfig.get_path("scripts")) / "fsb"
    found = str(own) if own.is_file() else shutil.which("fsb")
    if found is None:
        raise FileNotFoundError("fsb is not installed: pip install fsbench")
    return found


def _read_directory(path: Path) -> Run:
    record_path, journal = path / "run.json", path / "trials.jsonl"
    if not record_path.is_file():
        raise ReadError(f"{path} holds no run.json")
    record = _checked(record_path, record_path.read_bytes(), "fsbench/run")
    lines = journal.read_bytes().split(b"\n") if journal.is_file() else []
    # A machine that loses power leaves a last line without an end.
    return Run(path, record, [_trial(journal, number, line) for number, line in enumerate(lines[:-1], 1)], None)


def _read_page(path: Path) -> Run:
    page = path.read_bytes()
    start = page.find(_OPENING, 0, _HEAD + len(_OPENING))
    if start < 0:
        raise ReadError(f"{path} is neither a run directory nor a page of fsb publish")
    start += len(_OPENING)
    end = page.find(b"<", start)
    if end < 0:
        raise ReadError(f"{path}: the page ends within its data")
    lines = _unpacked(path, page[start:end]).split(b"\n")
    if len(lines) < 3:
        raise ReadError(f"{path}: the page holds no run")
    publication = _checked(path, lines[0], "fsbench/publication")
    record = _checked(path, lines[1], "fsbench/run")
    return Run(path, record, [_trial(path, number, line) for number, line in enumerate(lines[2:-1], 3)], publication)


def _unpacked(path: Path, text: bytes) -> bytes:
    try:
        # 31: a window of 32 KiB, and the header of gzip.
        decoder = zlib.decompressobj(wbits=31)
        data = decoder.decompress(base64.b64decode(text, validate=True), _LARGEST)
    except (binascii.Error, zlib.error) as error:
        raise ReadError(f"{path}: the data of the page cannot be read: {error}") from None
    if decoder.unconsumed_tail:
        raise ReadError(f"{path}: the data of the page is larger than {_LARGEST >> 20} MiB")
    if not decoder.eof:
        raise ReadError(f"{path}: the data of the page is cut off")
    return data


def _checked(path: Path, text: bytes, name: str) -> Row:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ReadError(f"{path}: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    found, _, version = str(schema).rpartition("/")
    major = version.split(".")[0]
    if found != name or not major.isdigit():
        raise ReadError(f"{path}: the schema is {schema}, not {name}/{_SCHEMAS[name]}")
    # Records of the first of the former versions have the schema of today's, and another name for `stop_reason`.
    if _SCHEMAS[name] < int(major) <= _LAST_FORMER or "finished" in value:
        raise ReadError(f"{path}: it has a format from before the first release: convert it with scripts/upgrade-results")
    if int(major) > _SCHEMAS[name]:
        raise ReadError(f"{path}: a newer fsb wrote {schema}: update this package")
    return value


def _trial(path: Path, number: int, line: bytes) -> Row:
    trial = _checked(path, line, "fsbench/trial")
    found = _CHECKSUM.search(line)
    if found is None or int(found[1], 16) != zlib.crc32(line[: found.start()] + b"}"):
        raise ReadError(f"{path}, line {number}: the line was changed: its checksum is wrong or absent")
    trial.pop("crc32", None)
    return trial


def _common(trial: Row) -> Row:
    counts = trial.get("phase") == "measured" and not trial.get("superseded", False)
    return {**{key: trial.get(key) for key in _COMMON if key != "counts"}, "counts": counts}


def _number(kind: Any, text: Optional[str]) -> Any:
    return kind(text) if text else None


def _item(values: Optional[list[Any]], place: int) -> Any:
    return values[place] if values and place < len(values) else None


def _medium(medium: Optional[Row]) -> str:
    name, argument = (medium or {}).get("name", "loop"), (medium or {}).get("argument")
    if argument is None:
        return name
    return argument if name == "device" else f"{name}:{argument}"


def _flat(values: Row, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def _table(rows: Iterator[Row], columns: list[str], to: Optional[str]) -> Any:
    found = [{column: row.get(column) for column in columns} for row in rows]
    if to is None:
        to = next((name for name in ("pandas", "polars") if importlib.util.find_spec(name)), "rows")
    if to == "rows":
        return found
    if to not in ("pandas", "polars"):
        raise ValueError(f"to is {to!r}, not 'pandas', 'polars' or 'rows'")
    library = importlib.import_module(to)
    if to == "pandas":
        return library.DataFrame(found, columns=columns)
    return library.DataFrame({column: [row[column] for row in found] for column in columns}, strict=False)
