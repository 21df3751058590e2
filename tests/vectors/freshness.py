#!/usr/bin/env python3
"""A second implementation of docs/format/freshness.md, by Python's standard library alone.

    freshness.py            makes tdekit-freshness.json beside it
    freshness.py --check    fails unless that file is what it would make

It encodes lists, records and anchors of its own, and decodes those of the fixture
`tests/fixtures/2/sqlite`, whose tags it takes from the pages themselves.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURE = HERE.parent / "fixtures/2/sqlite"
OUT = HERE / "tdekit-freshness.json"
SLOT_LEN = 512
HEADER_AREA_LEN, PAGE_LEN, RESERVE_LEN = 16384, 4096, 48


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def fill(tag, length):
    return hashlib.shake_128(tag.encode()).digest(length)


def snapshot(file_id, tags):
    return b"tdekit seals\0\0\0\x01" + file_id + struct.pack("<I", len(tags)) + b"".join(tags)


def record(pages, entries):
    head = struct.pack("<II", len(entries), pages)
    return head + b"".join(struct.pack("<I", page) + tag for page, tag in entries)


def list_digest(snap, records):
    digest = sha(b"tdekit snapshot", snap)
    for one in records:
        digest = sha(b"tdekit record", digest, one)
    return digest


def log_mark(log):
    if log is None:
        return bytes(52)
    return log["id"] + struct.pack("<I", log["frames"]) + log["digest"]


def slot(kind, flags, sequence, file_id, body):
    head = b"tdefrsh\x01" + bytes([kind]) + bytes(flags) + bytes(4)
    out = head + struct.pack("<Q", sequence) + file_id + body
    out += bytes(SLOT_LEN - 32 - len(out))
    return out + sha(out)


def list_slot(sequence, file_id, file, switching, snapshot_len, base, prepared, copied):
    state = lambda mark: struct.pack("<Q", mark[0]) + mark[1] if mark else bytes(40)
    body = struct.pack("<Q", snapshot_len) + state(base) + state(prepared) + log_mark(copied)
    return slot(1, [file, prepared is not None, switching], sequence, file_id, body)


def anchored(anchor, kind):
    """The whole slot of a kind with the higher sequence."""
    found = []
    for at in range(0, len(anchor), SLOT_LEN):
        one = anchor[at:at + SLOT_LEN]
        if one[:9] == b"tdefrsh\x01" + bytes([kind]) and sha(one[:480]) == one[480:]:
            found.append((struct.unpack_from("<Q", one, 16)[0], one))
    return max(found)


def applied(tags, data):
    """The tags after all records in `data`, and the records."""
    tags, records = list(tags), []
    while data:
        count, pages = struct.unpack_from("<II", data)
        length = 8 + 20 * count
        records.append(data[:length])
        tags = (tags + [bytes(16)] * pages)[:pages]
        for at in range(8, length, 20):
            page, = struct.unpack_from("<I", data, at)
            tags[page - 1] = data[at + 4:at + 20]
        data = data[length:]
    return tags, records


def made_up():
    for index, (pages, rounds) in enumerate(((0, [(1, [1])]), (3, []), (5, [(5, [2, 5]), (3, [1]),
                                                                           (6, [4, 5, 6])]))):
        name = f"freshness {index}"
        file_id = fill(name, 16)
        snap = snapshot(file_id, [fill(f"{name} tag {n}", 16) for n in range(1, pages + 1)])
        records = [record(count, [(page, fill(f"{name} {at} {page}", 16)) for page in changed])
                   for at, (count, changed) in enumerate(rounds)]
        digest = list_digest(snap, records)
        whole = b"".join(records)
        tags, _ = applied([snap[at:at + 16] for at in range(36, len(snap), 16)], whole)
        header, frames = fill(f"{name} log", 32), 1 + index
        log = {"id": sha(b"tdekit log", header)[:16], "frames": frames, "digest": bytes(32)}
        prefixes = [fill(f"{name} prefix {n}", 72) for n in range(frames)]
        seals = [fill(f"{name} seal {n}", RESERVE_LEN) for n in range(frames)]
        for prefix, seal in zip(prefixes, seals):
            log["digest"] = sha(b"tdekit frame", log["digest"], prefix, seal)
        base = (len(snap) + len(whole), digest)
        extra = record(pages, [(1, fill(f"{name} prepared", 16))]) if pages else b""
        prepared = (base[0] + len(extra), sha(b"tdekit record", digest, extra)) if extra else None
        sequence = 41 + index
        yield {
            "file_id": file_id.hex(), "snapshot": snap.hex(), "records": whole.hex(),
            "digest": digest.hex(), "tags": b"".join(tags).hex(),
            "journal_mark": sha(b"tdekit journal", digest)[:8].hex(),
            "wal_header": header.hex(), "prefixes": b"".join(prefixes).hex(),
            "seals": b"".join(seals).hex(), "log": log_mark(log).hex(),
            "prepared": (struct.pack("<Q", prepared[0]) + prepared[1]).hex() if prepared else "",
            "file": index % 2, "switching": index == 1, "sequence": sequence,
            "list_slot": list_slot(sequence, file_id, index % 2, index == 1, len(snap), base,
                                   prepared, log).hex(),
            "log_slot": slot(2, [0, 0, 0], sequence, file_id, log_mark(log)).hex(),
        }


def fixture():
    """What the fixture says, read by this program: its list leads to its anchor and its pages."""
    anchor_path, = (FIXTURE / "store/anchors").iterdir()
    anchor, data = anchor_path.read_bytes(), (FIXTURE / "fresh.db-seals").read_bytes()
    sequence, one = anchored(anchor, 1)
    snapshot_len, length = struct.unpack_from("<QQ", one, 40)
    digest, file_id = one[56:88], one[24:40]
    assert anchor_path.stem == file_id.hex()
    snap = data[:snapshot_len]
    assert snap[16:32] == file_id and struct.unpack_from("<I", snap, 32)[0] * 16 + 36 == len(snap)
    tags, records = applied([snap[at:at + 16] for at in range(36, len(snap), 16)],
                            data[snapshot_len:length])
    assert list_digest(snap, records) == digest
    pages = (FIXTURE / "fresh.db").read_bytes()[HEADER_AREA_LEN:]
    # The reserved bytes are nonce (24), tag (16), key version and flags (8).
    seen = [pages[at + PAGE_LEN - 24:at + PAGE_LEN - 8] for at in range(0, len(pages), PAGE_LEN)]
    assert seen == tags, "the list has the tags of the pages"
    return {"anchor": anchor_path.name, "sequence": sequence, "len": length,
            "digest": digest.hex(), "tags": b"".join(tags).hex()}


def main():
    lines = ",\n".join("    " + json.dumps(vector) for vector in made_up())
    head = json.dumps({"source": "computed by freshness.py (hashlib)", "licence": "as tdekit",
                       "fixture": fixture()}, indent=2)[:-2]
    text = f'{head},\n  "vectors": [\n{lines}\n  ]\n}}\n'
    if sys.argv[1:] == ["--check"]:
        assert OUT.read_text() == text, "tdekit-freshness.json is another"
    else:
        OUT.write_text(text)


if __name__ == "__main__":
    main()
