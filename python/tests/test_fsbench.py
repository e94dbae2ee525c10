"""Tests of the module on recorded runs: with rows, and with pandas and polars where they are installed."""

import base64
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "python" / "src"))

import fsbench  # noqa: E402

RECORDS = TOP / "testdata" / "records"
RUN = RECORDS / "three-targets"
OPENING = '<script type="application/vnd.fsbench.run+gzip" id="fsbench-run">'


def page(lines: bytes) -> str:
    data = base64.b64encode(gzip.compress(lines)).decode()
    return f'<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n{OPENING}{data}</script>\n</head>\n'


def published() -> bytes:
    publication = {"schema": "fsbench/publication/1", "fsb_version": "0.1.0", "removed": []}
    record = json.loads((RUN / "run.json").read_text())
    lines = [json.dumps(publication), json.dumps(record), (RUN / "trials.jsonl").read_text()]
    return "\n".join(lines).encode()


class Directory(unittest.TestCase):
    def test_a_run_is_read_and_one_of_a_former_format_refused_with_the_command(self) -> None:
        run = fsbench.read(RUN)
        self.assertGreater(len(run.trials(to="rows")), 100)
        self.assertEqual([row["target"] for row in run.targets(to="rows")], ["null", "slow", "broken"])
        with self.assertRaisesRegex(fsbench.ReadError, "scripts/upgrade-results"):
            fsbench.read(RECORDS / "former")

    def test_trials_have_a_row_per_metric(self) -> None:
        run = fsbench.read(RUN)
        rows = run.trials(to="rows")
        lines = [json.loads(line) for line in (RUN / "trials.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), sum(max(1, len(line["metrics"])) for line in lines))
        first = next(row for row in rows if row["outcome"] == "ok" and row["primary"])
        line = next(line for line in lines if line["outcome"] == "ok")
        self.assertEqual((first["metric"], first["value"]), (line["metrics"][0]["name"], line["metrics"][0]["value"]))
        self.assertTrue(all(row["value"] is None for row in rows if row["target"] == "broken"))
        self.assertEqual({row["counts"] for row in rows if row["block"] == 0}, {False})

    def test_samples_are_those_of_the_rounds(self) -> None:
        run = fsbench.read(RUN)
        rows = run.samples(to="rows")
        lines = [json.loads(line) for line in (RUN / "trials.jsonl").read_text().splitlines()]
        times = [time for line in lines for time in line.get("samples", {}).get("timed_ns", [])]
        self.assertGreater(len(times), 50)
        self.assertEqual([round(row["seconds"] * 1e9) for row in rows], times)

    def test_targets_and_environment_are_those_of_the_record(self) -> None:
        run = fsbench.read(RUN)
        slow = run.targets(to="rows")[1]
        self.assertEqual((slow["file_system"], slow["medium"], slow["baseline"]), ("null", "loop", False))
        facts = {row["fact"]: row["value"] for row in run.environment(to="rows")}
        self.assertEqual((facts["cpu"], facts["cpus"]), ("AMD EPYC", "2"))
        self.assertIn("segment 1.boot_id", facts)
        self.assertIn("trials", repr(run))

    def test_a_cut_off_last_line_is_left_out(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "run.json").write_bytes((RUN / "run.json").read_bytes())
            whole = (RUN / "trials.jsonl").read_bytes()
            (Path(directory) / "trials.jsonl").write_bytes(whole[:-20])
            orders = [{row["order"] for row in fsbench.read(path).trials(to="rows")} for path in (directory, RUN)]
            self.assertEqual(len(orders[0]) + 1, len(orders[1]))

    def test_a_changed_digit_is_an_error_with_its_line(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "run.json").write_bytes((RUN / "run.json").read_bytes())
            journal = Path(directory) / "trials.jsonl"
            text = (RUN / "trials.jsonl").read_bytes()
            for changed in (text.replace(b'"order":2,', b'"order":7,', 1), text.replace(b',"crc32"', b',"crc23"')):
                journal.write_bytes(changed)
                with self.assertRaisesRegex(fsbench.ReadError, r"trials.jsonl, line \d+: the line was changed"):
                    fsbench.read(directory)

    def test_other_directories_and_newer_schemas_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(fsbench.ReadError, "holds no run.json"):
                fsbench.read(directory)
            record = Path(directory) / "run.json"
            for text, why in [
                ('{"schema": "fsbench/run/9"}', "newer fsb"),
                ('{"schema": "other/1"}', "schema is other/1"),
                ("[]", "schema is None"),
                ("{", "line 1"),
            ]:
                record.write_text(text)
                with self.assertRaisesRegex(fsbench.ReadError, why):
                    fsbench.read(directory)


class Page(unittest.TestCase):
    def read(self, text: str) -> fsbench.Run:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "a.html"
            path.write_text(text)
            return fsbench.read(path)

    def test_a_page_has_the_tables_of_its_run_directory(self) -> None:
        run, expected = self.read(page(published())), fsbench.read(RUN)
        for name in ("trials", "samples", "targets", "environment"):
            self.assertEqual(getattr(run, name)(to="rows"), getattr(expected, name)(to="rows"), name)
        self.assertEqual(run.publication["removed"], [])
        self.assertIsNone(expected.publication)

    def test_damaged_pages_are_refused_with_the_cause(self) -> None:
        whole = page(published())
        data = whole.index("H4sI")
        for text, why in [
            (whole[: data + 100], "ends within its data"),
            (whole[: data + 100] + "</script>", "cut off"),
            (whole.replace("H4sI", "H4!I", 1), "cannot be read"),
            (whole.replace("H4sI", "AAAA", 1), "cannot be read"),
            (page(b""), "holds no run"),
            (page(b'{"schema": "fsbench/publication/9"}\n{}\n'), "newer fsb"),
            ("<!doctype html>", "neither"),
        ]:
            with self.assertRaisesRegex(fsbench.ReadError, why):
                self.read(text)

    def test_the_program_publishes_what_the_module_reads(self) -> None:
        program = os.environ.get("FSB")
        if not program:
            self.skipTest("the variable FSB does not name the program")
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory) / "a.html"
            arguments = [program, "publish", str(RUN), "-o", str(target), "--keep", "names"]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            run, expected = fsbench.read(target), fsbench.read(RUN)
        values = [[row["value"] for row in read.trials(to="rows")] for read in (run, expected)]
        self.assertEqual(values[0], values[1])
        self.assertIn("host", {removal["class"] for removal in run.publication["removed"]})


class History(unittest.TestCase):
    def setUp(self) -> None:
        self.program = os.environ.get("FSB")
        if not self.program:
            self.skipTest("the variable FSB does not name the program")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.store = str(self.place / "history.sqlite")

    def history(self, to: str):
        subprocess.run(
            [self.program, "history", "add", "--store", self.store, str(RUN)], check=True, capture_output=True
        )
        return fsbench.history(self.store, to=to, program=self.program)

    def test_the_history_has_the_values_of_its_runs(self) -> None:
        rows = self.history("rows")
        self.assertIn("null", {row["target"] for row in rows})
        self.assertTrue(all(isinstance(row["value"], float) and row["blocks"] > 0 for row in rows))
        self.assertIn("kernel", json.loads(rows[0]["environment"]))

    def test_frames_of_the_history_write_parquet(self) -> None:
        target = self.place / "history.parquet"
        expected = [row["value"] for row in self.history("rows")]
        if importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow"):
            import pandas

            self.history("pandas").to_parquet(target)
            self.assertEqual(list(pandas.read_parquet(target)["value"]), expected)
        elif importlib.util.find_spec("polars"):
            import polars

            self.history("polars").write_parquet(target)
            self.assertEqual(polars.read_parquet(target)["value"].to_list(), expected)
        else:
            self.skipTest("neither pandas with pyarrow nor polars is installed")

    def test_a_history_that_is_none_is_refused_with_the_message_of_the_program(self) -> None:
        other = self.place / "text"
        other.write_text("no database")
        with self.assertRaisesRegex(fsbench.ReadError, "error: "):
            fsbench.history(str(other), program=self.program)


class Frames(unittest.TestCase):
    def frame(self, library: str, table: str):
        if importlib.util.find_spec(library) is None:
            self.skipTest(f"{library} is not installed")
        return getattr(fsbench.read(RUN), table)(to=library)

    def test_pandas_gives_frames_with_numbers(self) -> None:
        trials = self.frame("pandas", "trials")
        counting = trials[trials["counts"] & trials["primary"]]
        medians = counting.groupby(["workload", "target"])["value"].median()
        self.assertGreater(medians["write 1M, durable", "null"], medians["write 1M, durable", "slow"])
        self.assertEqual(str(trials["value"].dtype), "float64")
        self.assertGreater(self.frame("pandas", "samples")["seconds"].min(), 0)
        self.assertEqual(list(self.frame("pandas", "targets")["target"]), ["null", "slow", "broken"])

    def test_polars_gives_the_same_rows(self) -> None:
        trials = self.frame("polars", "trials")
        self.assertEqual(trials.to_dicts(), fsbench.read(RUN).trials(to="rows"))
        for table in ("samples", "targets", "environment"):
            self.assertEqual(self.frame("polars", table).to_dicts(), getattr(fsbench.read(RUN), table)(to="rows"))

    def test_an_unknown_kind_of_table_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "numpy"):
            fsbench.read(RUN).trials(to="numpy")


if __name__ == "__main__":
    unittest.main()
