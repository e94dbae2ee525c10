#!/usr/bin/env python3
"""A second reader of the output of other tools, for the differential test in machine.rs.

It shares no code with the readers of fsb. Standard input holds a JSON document a line, {"tool": NAME, "text": TEXT}.
For each it prints a JSON list of values: [line, operation, metric, value], in base units.
"""

import json
import re
import sys
import xml.parsers.expat

KIB, MIB, GIB = 1024.0, 1048576.0, 1073741824.0


def lines_of(text):
    """Yields the number and the text of each line. A line without an end may be cut."""
    parts = text.split("\n")
    for number, line in enumerate(parts, 1):
        if number == len(parts) and line == "":
            return
        yield number, line.rstrip("\r"), number < len(parts)


def decimal(text, places):
    match = re.fullmatch(r"(\d+)[.,](\d{%s})" % places, text)
    return float(f"{match[1]}.{match[2]}") if match else None


def ior(text):
    values, columns, random = [], None, False
    for number, line, ended in lines_of(text):
        line = line.strip()
        if line.startswith("IOR-") and line.endswith(": MPI Coordinated Test of Parallel I/O"):
            columns, random = None, False
        elif line.startswith("access ") and line.endswith(" iter"):
            columns = line.split()
        elif line.startswith("Summary of all tests"):
            columns = None
        elif re.match(r"api\s*[=:]", line):
            random = False
        elif re.match(r"ordering in a file\s*[=:]", line):
            random = bool(re.match(r"ordering in a file\s*[=:]\s*random", line))
        elif columns and line.split()[:1] in (["write"], ["read"]):
            words = line.split()
            if len(words) != len(columns) or not ended or not re.fullmatch(r"\d+", words[-1]):
                continue
            operation = ("random_" if random else "") + words[0]
            for heading, metric, factor in (("bw(MiB/s)", "throughput", MIB), ("IOPS", "operation_rate", 1.0)):
                if heading in columns:
                    word = words[columns.index(heading)]
                    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", word):
                        values.append([number, operation, metric, float(word) * factor])
    return values


MDTEST = {
    "Directory creation": "directory_create", "Directory stat": "directory_stat", "Directory read": "directory_read",
    "Directory rename": "directory_rename", "Directory removal": "directory_remove", "File creation": "file_create",
    "File stat": "file_stat", "File read": "file_read", "File removal": "file_remove", "Tree creation": "tree_create",
    "Tree removal": "tree_remove",
}


def mdtest(text):
    values, reading, position = [], False, None
    for number, line, ended in lines_of(text):
        line = line.strip()
        if line.startswith("SUMMARY"):
            reading, position = not line.startswith("SUMMARY time"), None
        elif line.startswith("-- finished") or (line.startswith("mdtest-") and " was launched with " in line):
            reading = False
        elif reading and line.startswith("Operation "):
            names = re.findall(r"per Rank:|per Iteration:|Std Dev|\S+", line[len("Operation "):])
            group, found, position = "", [], None
            for name in names:
                if name.startswith("per "):
                    group = name
                else:
                    found.append((group, name))
            means = [at for at, column in enumerate(found) if column[1] == "Mean" and column[0] != "per Rank:"]
            known = all(column[1] in ("Max", "Min", "Mean", "Std Dev") for column in found)
            position = (means[0], len(found)) if known and len(means) == 1 else None
        elif reading and position:
            for label, operation in MDTEST.items():
                if line.startswith(label):
                    numbers = line[len(label):].lstrip(" :").split()
                    if ended and len(numbers) == position[1] and (mean := decimal(numbers[position[0]], 3)) is not None:
                        values.append([number, operation, "operation_rate", mean])
    return values


def io500(text):
    values = []
    units = {"GiB/s": ("throughput", GIB), "kIOPS": ("operation_rate", 1e3)}
    for number, line, ended in lines_of(text):
        match = re.fullmatch(
            r"\s*\[RESULT[^]]*\]\s+(\S+)\s+(\d+[.,]\d{6}) (\S+) : time \S+ seconds(?: \[INVALID\])?\s*", line)
        if match and ended and match[3] in units:
            metric, factor = units[match[3]]
            values.append([number, match[1].replace("-", "_"), metric, decimal(match[2], 6) * factor])
    return values


def sysbench(text):
    values, begun, event = [], False, "event"
    rates = {
        "reads/s": ("read", "operation_rate", 1.0), "writes/s": ("write", "operation_rate", 1.0),
        "fsyncs/s": ("fsync", "operation_rate", 1.0), "read, MiB/s": ("read", "throughput", MIB),
        "written, MiB/s": ("write", "throughput", MIB),
    }
    times = {
        "avg": "latency_mean", "max": "latency_max", "50th percentile": "latency_p50",
        "90th percentile": "latency_p90", "95th percentile": "latency_p95", "99th percentile": "latency_p99",
    }
    for number, line, _ in lines_of(text):
        line = line.strip()
        if re.match(r"sysbench \d", line):
            begun = False
        elif match := re.fullmatch(r"Doing (.*) test", line):
            begun = True
            event = "read" if match[1] in ("sequential read", "random read") else "event"
        elif begun and (match := re.fullmatch(r"(.*?):\s+(\d+[.,]\d\d)", line)):
            value = decimal(match[2], 2)
            if match[1] in rates:
                operation, metric, factor = rates[match[1]]
                values.append([number, operation, metric, value * factor])
            elif match[1] in times:
                values.append([number, event, times[match[1]], value / 1000.0])
    return values


def bonnie(text):
    values = []
    large = [("write_char", "throughput"), ("write", "throughput"), ("update", "throughput"),
             ("read_char", "throughput"), ("read", "throughput"), ("seek", "operation_rate")]
    small = [(f"{verb}_{order}", "operation_rate") for order in ("sequential", "random")
             for verb in ("create", "stat", "delete")]
    for number, line, ended in lines_of(text):
        fields = line.strip().split(",")
        if len(fields) < 3 or not all(re.fullmatch(r"(1\.9|2\.)[0-9A-Za-z.]{0,6}", field) for field in fields[:2]):
            continue
        first = 7 if fields[0] < "1.98" else 9
        if len(fields) != first + 12 + 5 + 12 + 12 or not ended:
            continue

        def take(tests, rates, latencies):
            for at, (operation, metric) in enumerate(tests):
                rate, cpu, time = fields[rates + 2 * at], fields[rates + 2 * at + 1], fields[latencies + at]
                number_of = re.compile(r"\d+(\.\d*)?|\.\d+")
                if number_of.fullmatch(rate):
                    values.append([number, operation, metric, float(rate) * (KIB if metric == "throughput" else 1.0)])
                if number_of.fullmatch(cpu):
                    values.append([number, operation, "cpu_utilization", float(cpu) / 100.0])
                if match := re.fullmatch(r"(\d+)(us|ms|s)", time):
                    values.append([number, operation, "latency_max", int(match[1]) / {"us": 1e6, "ms": 1e3, "s": 1.0}[match[2]]])

        if fields[5]:
            take(large, first, first + 29)
        take(small, first + 17, first + 35)
    return values


def postmark(text):
    values, deleting = [], False
    rates = {"seconds of transactions": "transaction", "created": "create", "Creation alone": "create_alone", "read": "read",
             "appended": "append", "deleted": "delete", "Deletion alone": "delete_alone"}
    units = {"bytes": 1.0, "kilobytes": KIB, "megabytes": MIB, "gigabytes": GIB}
    for number, line, _ in lines_of(text):
        line = line.strip()
        if line == "Time:" or line.startswith(("PostMark v", "Creating files")):
            deleting = False
        elif match := re.fullmatch(r"(.*?) \((\d+)(?:[.,](\d\d))? per second\)", line):
            left = match[1]
            name = left.split(":")[0] if ":" in left else left.partition(" ")[2] or left
            deleting = name == "deleted" or (deleting and name != "created")
            operation = rates.get(name)
            if name == "Mixed with transactions":
                operation = "delete_mixed" if deleting else "create_mixed"
            if operation:
                values.append([number, operation, "operation_rate", float(f"{match[2]}.{match[3] or 0}")])
        elif match := re.fullmatch(r".* (read|written) \((\d+[.,]\d\d) (\w+) per second\)", line):
            if match[3] in units:
                operation = {"read": "read", "written": "write"}[match[1]]
                values.append([number, operation, "throughput", decimal(match[2], 2) * units[match[3]]])
    return values


def filebench(text):
    values, breakdown = [], False
    number_of = r"(\d+(?:[.,]\d{1,3})?)"
    for number, line, _ in lines_of(text):
        line = line.strip()
        message = line.split(": ", 1)[1] if ": " in line else line
        row = re.fullmatch(
            rf"(\S+)\s+\S+\s+{number_of}ops/s\s+{number_of}mb/s\s+{number_of}ms/op(\s.*)?", line)
        total = re.fullmatch(
            rf"IO Summary:\s+\S+ ops {number_of} ops/s {number_of}/{number_of} rd/wr\s+{number_of}mb/s\s+{number_of}ms/op", message)

        def value(text):
            return float(text.replace(",", "."))

        if line.startswith("Filebench Version "):
            breakdown = False
        elif message.startswith("Per-Operation Breakdown"):
            breakdown = True
        elif message.startswith("IO Summary: "):
            breakdown = False
            if total:
                found = [value(text) for text in total.groups()]
                values += [[number, "total", "operation_rate", found[0]], [number, "read", "operation_rate", found[1]],
                           [number, "write", "operation_rate", found[2]], [number, "total", "throughput", found[3] * MIB],
                           [number, "total", "latency_mean", found[4] / 1000.0]]
        elif breakdown and row:
            values += [[number, row[1], "operation_rate", value(row[2])], [number, row[1], "throughput", value(row[3]) * MIB],
                       [number, row[1], "latency_mean", value(row[4]) / 1000.0]]
    return values


IOZONE = ["write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "record_rewrite",
          "stride_read", "fwrite", "frewrite", "fread", "freread"]
BLOCKS = {"initial writers": "write", "rewriters": "rewrite", "readers": "read", "re-readers": "reread",
          "random readers": "random_read", "random writers": "random_write", "reverse readers": "backward_read",
          "stride readers": "stride_read", "mixed workload": "mixed", "pwrite writers": "pwrite", "pread readers": "pread",
          "fwriters": "fwrite", "freaders": "fread"}
SEEN = {"Children see throughput for": "throughput", "Parent sees throughput for": "throughput_parent",
        "Min throughput per": "throughput_min", "Max throughput per": "throughput_max", "Avg throughput per": "throughput_mean"}


def iozone(text):
    values, table, operation, seen = [], False, None, set()
    for number, line, ended in lines_of(text):
        stripped = line.strip()
        if re.match(r"kB\s+reclen\s", stripped):
            table, seen = True, set()
        elif stripped.startswith("iozone test complete"):
            table = False
        elif table and re.fullmatch(r"[\d ]+", stripped):
            words = [int(word) for word in stripped.split()]
            # Only full rows: places of other rows depend on blanks.
            if len(words) == 15 and ended and tuple(words[:2]) not in seen and 0 < words[1] <= words[0]:
                seen.add(tuple(words[:2]))
                values += [[number, name, "throughput", word * KIB] for name, word in zip(IOZONE, words[2:])]
        for start, metric in SEEN.items():
            if stripped.startswith(start) and (match := re.fullmatch(r"(.*?)\s*=\s*(\d+[.,]\d\d) kB/sec", stripped)):
                if " for " in match[1]:
                    operation = BLOCKS.get(re.sub(r"^\s*\d+ ", "", match[1].split(" for ")[1]).strip())
                if operation:
                    values.append([number, operation, metric, decimal(match[2], 2) * KIB])
    return values


def phoronix(text):
    values, path, chunks, fields, entry = [], [], [], {}, {}
    factors = {"MB/s": ("throughput", 1e6), "MiB/s": ("throughput", MIB), "IOPS": ("operation_rate", 1.0),
               "us": ("time", 1e-6), "Seconds": ("time", 1.0)}
    parser = xml.parsers.expat.ParserCreate()

    def start(name, _):
        path.append(name)
        chunks.clear()

    def end(name):
        where, content = path[1:], "".join(chunks).strip()
        if where[:1] == ["Result"] and len(where) == 2:
            fields[name] = content
        elif where[:3] == ["Result", "Data", "Entry"] and len(where) == 4:
            entry[name] = (content, parser.CurrentLineNumber)
        elif where == ["Result", "Data", "Entry"]:
            raw = entry.get("RawString", ("", 0))
            content, line = raw if raw[0] else entry.get("Value", ("", 0))
            scale, operation = fields.get("Scale"), fields.get("Description") or fields.get("Title") or ""
            metric, factor = factors.get(scale, (None, 1.0))
            if not metric and fields.get("Proportion") in ("HIB", "LIB"):
                metric, operation = "score", f"{operation} ({scale})" if scale else operation
            for text in filter(None, (part.strip() for part in content.split(":"))):
                if metric and re.fullmatch(r"\d+(\.\d+)?(E[-+]?\d+)?", text):
                    values.append([line, operation, metric, float(text) * factor])
            entry.clear()
        elif where == ["Result"]:
            fields.clear()
        path.pop()
        chunks.clear()

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, chunks.append
    # Text before the document is not part of it, and declarations say nothing.
    text = re.sub(r"<\?xml[^>]*>", "", text)
    root = max(text.find("<PhoronixTestSuite"), 0)
    try:
        parser.Parse("\n" * text.count("\n", 0, root) + text[root:], True)
    except xml.parsers.expat.ExpatError:
        pass
    return values


def fio(text):
    """Reads the lines of fio's JSON, which has one key a line, by their braces."""
    values, path, jobs = [], [], []
    number_of = r"-?\d+(?:\.\d+)?"
    for number, line, _ in lines_of(text):
        line = line.strip()
        if match := re.fullmatch(r'"([^"]*)" : [{\[]', line):
            path.append(match[1])
        elif line in ("{", "["):
            path.append("")
            if path[1:] == ["jobs", ""]:
                jobs.append({})
        elif line.rstrip(",") in ("}", "]"):
            if path:
                path.pop()
        elif jobs and path[1:3] == ["jobs", ""]:
            if match := re.fullmatch(rf'"([^"]*)" : "?(.*?)"?,?', line):
                is_number = re.fullmatch(number_of, match[2])
                jobs[-1].setdefault(tuple(path[3:]) + (match[1],), (match[2], number, bool(is_number)))
    percentiles = {"50.000000": ("latency_p50", 200), "90.000000": ("latency_p90", 1000),
                   "99.000000": ("latency_p99", 10000), "99.900000": ("latency_p999", 100000)}
    for job in jobs:
        mode = job.get(("job options", "rw"), ("read",))[0]
        for direction in ("read", "write", "trim"):
            # Without a count, the direction that was requested counts.
            asked = "1" if direction in mode else "0"
            if job.get((direction, "total_ios"), (asked,))[0] == "0":
                continue
            operation = ("random_" if mode.startswith("rand") else "") + direction
            def get(*key):
                return job.get((direction,) + key)

            count = get("clat_ns", "N") or get("total_ios") or ("0", 0, True)
            found = [(get("bw_bytes"), "throughput", 1.0)] if get("bw_bytes") else [(get("bw"), "throughput", 1 / KIB)]
            found.append((get("iops"), "operation_rate", 1.0))
            # Without completion latencies, the total ones take their place.
            found.append((get("clat_ns", "mean") or get("lat_ns", "mean"), "latency_mean", 1e9))
            if any(key[:2] == (direction, "clat_ns") for key in job):
                found.append((get("lat_ns", "mean"), "total_latency_mean", 1e9))
            for key, (metric, least) in percentiles.items():
                if count[2] and float(count[0]) >= least:
                    found.append((get("clat_ns", "percentile", key), metric, 1e9))
            values += [[at, operation, metric, float(value) / factor]
                       for (value, at, is_number), metric, factor in filter(lambda one: one[0], found) if is_number]
    return values


READERS = {"bonnie++": bonnie, "filebench": filebench, "fio": fio, "io500": io500, "ior": ior, "iozone": iozone, "mdtest": mdtest,
           "phoronix": phoronix, "postmark": postmark, "sysbench": sysbench}

if __name__ == "__main__":
    for document in sys.stdin:
        request = json.loads(document)
        print(json.dumps(READERS[request["tool"]](request["text"])))
