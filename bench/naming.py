"""What each way of reading finds in logs: plain, `--guess` and `formats suggest`.

python bench/naming.py OUT.json FILE ...     reads the files, and writes what was found
python bench/naming.py --diff OLD.json NEW.json     prints what differs, and where a guess stores less than a plain read
"""

import json
import re
import sys
from multiprocessing import Pool
from pathlib import Path

_PLACES = ("run", "line", "part", "copy", "read_by")


def counts(log):
    """Return the formats of a log, its account of figures, and how many numbers each column and each key has."""
    steps, values = log.table("steps"), log.table("values")
    return {
        "formats": sorted(map(str, log.runs["format"].unique())),
        "account": log.figure_account,
        "steps": {c: int(steps[c].notna().sum()) for c in steps.columns if c not in _PLACES and steps[c].notna().any()},
        "values": values["key"].astype(str).value_counts().to_dict(),
        "failures": len(log.table("failures")),
    }


def suggested(path):
    """Return how many entries and field names a suggested file has."""
    from perflog.ingestion.suggest import suggest

    text = suggest(path)
    entries, fields = (re.findall(pattern, text, re.MULTILINE) for pattern in (r"^\[\[", r"\{([A-Za-z]\w*):"))
    return {"entries": len(entries), "fields": len({*fields})}


def examine(path):
    import perflog
    from perflog.errors import PerflogError

    ways = {
        "plain": lambda: counts(perflog.read(path)),
        "guess": lambda: counts(perflog.read(path, guess=True)),
        "suggest": lambda: suggested(path),
    }
    found = {}
    for way, read in ways.items():
        try:
            found[way] = read()
        except PerflogError as error:
            found[way] = {"error": str(error).splitlines()[0]}
    return path, found


def differences(old, new):
    """Yield the lines that say what differs between two states."""
    for path in sorted(old.keys() & new.keys()):
        for way, before in old[path].items():
            after = new[path][way]
            for what in sorted(before.keys() | after.keys()):
                if before.get(what) != after.get(what):
                    yield f"{path} {way} {what}: {before.get(what)} -> {after.get(what)}"
    for path, ways in sorted(new.items()):
        plain, guess = (ways[way].get("account", {}).get("stored", 0) for way in ("plain", "guess"))
        if guess < plain:
            yield f"{path}: a guess stores {guess} figures, a plain read {plain}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--diff"]:
        old, new = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[2:4])
        print("\n".join(differences(old, new)))
    else:
        with Pool(2) as pool:
            results = dict(pool.imap_unordered(examine, sys.argv[2:]))
        Path(sys.argv[1]).write_text(json.dumps(results, sort_keys=True), "utf-8")
