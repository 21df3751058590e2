#!/usr/bin/env python3
"""Restores a backup set without tdekit, from docs/format/media.md and docs/crypto.md alone.

    media_reader.py MEDIA --key KEY.pem [--password TEXT] --position N --to FILE
    media_reader.py MEDIA --key KEY.pem [--password TEXT] --position N --flip
    media_reader.py ARCHIVE --key KEY.pem [--password TEXT] --at OBJECT.TRANSACTION --to FILE

It reads sets that are plain or sealed by AES_128, AES_192 or AES_256, uncompressed or compressed by
zstd, of databases (full and differential) and streams; and archives by docs/format/archive.md, from
the full set of a chain on. ``--flip`` changes one bit at many places of the set and of its base,
and fails unless each change is refused.
"""

import argparse
import hashlib
import hmac
import json
import os
import struct
import sys

import blake3
import xxhash
import zstandard
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap_with_padding
from cryptography.x509 import load_der_x509_certificate

MEDIA_HEADER_LEN = 96
TRAILER_LEN = 256
ALGORITHMS = {0: None, 1: "AES_128", 2: "AES_192", 3: "AES_256"}
KEY_LEN = {"AES_128": 16, "AES_192": 24, "AES_256": 32}
KINDS = {b"tdekset\n": 1, b"tdekrcp\n": 2, b"tdeksig\n": 3}
COMPRESSED, LAST = 1, 2
# Flags of a log set, and of a set of an archive.
CHANGES = 8
IN_ARCHIVE = 16
DATA, PAGE_MAP, METADATA = 0, 1, 2


class Refused(Exception):
    """The media set is damaged, was changed, or asks for what this reader does not have."""


def check(holds, what):
    if not holds:
        raise Refused(what)


def sha256(data):
    return hashlib.sha256(data).digest()


# By the version of a signature.
BLOCK_HASHES = {1: sha256, 2: lambda data: blake3.blake3(data).digest()}


def mac(key, data):
    return hmac.new(key, data, "sha256").digest()


class Fields:
    """Reads fields one behind the other."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, length):
        check(self.at + length <= len(self.data), "the fields end early")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, layout):
        return struct.unpack("<" + layout, self.take(struct.calcsize(layout)))[0]

    def short(self):
        return self.take(self.number("H"))

    def zeros(self, length):
        check(not any(self.take(length)), "a reserved byte is not zero")

    def end(self):
        check(self.at == len(self.data), "bytes follow the last field")


# --- Keys ------------------------------------------------------------------------------------


class SubkeyGcm:
    """AES_128, AES_192 and AES_256 of docs/crypto.md; with 32 bytes it is XAES-256-GCM."""

    def __init__(self, key):
        self.key, self.subkeys = key, {}
        self.cipher = Cipher(algorithms.AES(key), modes.ECB())
        doubled = int.from_bytes(self.encrypt_block(bytes(16)), "big") << 1
        if doubled >> 128:
            doubled = (doubled & (1 << 128) - 1) ^ 0x87
        self.k1 = doubled.to_bytes(16, "big")

    def encrypt_block(self, block):
        encryptor = self.cipher.encryptor()
        return encryptor.update(block) + encryptor.finalize()

    def subkey(self, prefix):
        if prefix not in self.subkeys:
            blocks = (bytes([0, counter]) + b"X\0" + prefix for counter in (1, 2))
            derived = b"".join(
                self.encrypt_block(bytes(a ^ b for a, b in zip(block, self.k1))) for block in blocks
            )
            self.subkeys[prefix] = AESGCM(derived[: len(self.key)])
        return self.subkeys[prefix]

    def open(self, nonce, sealed, aad):
        try:
            return self.subkey(nonce[:12]).decrypt(nonce[12:], sealed, aad)
        except InvalidTag:
            raise Refused("a block does not authenticate at its place") from None


def unwrap(recipients, private_key):
    """The set's secret, by the recipient that has this private key."""
    spki = private_key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for recipient in recipients:
        fields = Fields(recipient)
        mechanism = fields.number("H")
        fields.take(32 + 20)
        if fields.take(32) == sha256(spki) and mechanism in UNWRAP:
            blob = fields.short()
            fields.end()
            try:
                return UNWRAP[mechanism](private_key, blob)
            except (ValueError, InvalidUnwrap):
                raise Refused("a wrapped key is damaged") from None
    raise Refused("no recipient has this private key")


def unwrap_by_oaep(private_key, blob):
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    return private_key.decrypt(blob, oaep)


def unwrap_by_ecdh(private_key, blob):
    ephemeral, wrapped = blob[:POINT_LEN], blob[POINT_LEN:]
    peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP384R1(), ephemeral)
    own = private_key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    info = b"tdekit wrap v1 ECDH P-384" + ephemeral + own
    shared = private_key.exchange(ec.ECDH(), peer)
    key = HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(shared)
    return aes_key_unwrap_with_padding(key, wrapped)


POINT_LEN = 97
UNWRAP = {1: unwrap_by_oaep, 2: unwrap_by_ecdh}


# --- Parts of a media set ----------------------------------------------------------------------


class Trailer:
    def __init__(self, data):
        check(len(data) == TRAILER_LEN, "a trailer is cut off")
        check(data[:8] == b"tdekend\n" and data[248:] == b"tdekit]\n", "no trailer stands here")
        check(sha256(data[:184]) == data[184:216], "a trailer is damaged")
        self.data = data
        fields = Fields(data, 8)
        self.kind = fields.number("B")
        fields.zeros(3)
        self.ordinal, self.length, self.header_len = (fields.number(size) for size in "IQI")
        fields.zeros(4)
        self.blocks, self.data_bytes, self.stored, self.pages = (
            fields.number("Q") for _ in range(4)
        )
        self.finished = fields.number("q")
        self.index_offset, self.index_len, self.data_blocks = (fields.number("Q") for _ in range(3))
        self.header_sha256, self.index_sha256 = fields.take(32), fields.take(32)
        fields.zeros(24)


class Record:
    def __init__(self, media, start, trailer):
        self.start, self.trailer = start, trailer
        self.raw = media[start : start + trailer.header_len]
        check(sha256(self.raw) == trailer.header_sha256, "a record header is damaged")
        self.kind = KINDS.get(self.raw[:8])
        check(self.kind == trailer.kind, "header and trailer are of two kinds")
        fields = Fields(self.raw[:-64], 8)
        check(fields.number("I") == len(self.raw), "a record header has another length")
        check(sha256(self.raw[:-64]) == self.raw[-64:-32], "a record header is damaged")
        self.ordinal = fields.number("I")
        check(self.ordinal == trailer.ordinal, "header and trailer have two ordinals")
        self.previous, self.media_id, self.set_id = (fields.take(n) for n in (32, 16, 16))
        {1: self.read_set, 2: self.read_recipients, 3: self.read_signature}[self.kind](fields)
        fields.end()

    def read_set(self, fields):
        self.position = fields.number("I")
        self.type, self.source, self.compression, algorithm = fields.take(4)
        self.flags, self.level = fields.number("B"), fields.number("b")
        self.family, self.families = fields.number("H"), fields.number("H")
        fields.zeros(2)
        self.block_size, self.page_size, self.pages = (fields.number(size) for size in "IIQ")
        self.begun, self.expires = fields.number("q"), fields.number("q")
        self.database_id, self.base_id = fields.take(16), fields.take(16)
        self.base_trailer = fields.take(32)
        self.first = None
        if self.type == 3:
            self.chain = fields.take(16)
            self.number, self.first = fields.number("Q"), fields.number("Q")
            self.transactions = fields.number("I")
            fields.zeros(4)
        self.place = None
        if self.flags & IN_ARCHIVE:
            if self.type == 1:
                self.place = fields.number("Q")
                # The object behind which it was shipped; a set is restored without it.
                fields.take(64)
            fields.take(16 * fields.number("B"))
        self.texts = [fields.short().decode() for _ in range(7)]
        # For another algorithm, this reader only knows where the set ends.
        self.algorithm = ALGORITHMS.get(algorithm, "unknown")
        self.context = self.raw[: fields.at]
        self.commitment = fields.take(32) if self.algorithm else None
        self.recipients = recipients(fields)
        check(bool(self.algorithm) == bool(self.recipients), "recipients without an algorithm")

    def read_recipients(self, fields):
        fields.number("q")
        self.recipients = recipients(fields)

    def read_signature(self, fields):
        fields.number("q")
        self.signed_trailer, self.signed_content = fields.take(32), fields.take(32)
        self.certificate, self.signature = fields.short(), fields.short()
        self.version = fields.number("B") if fields.at < len(fields.data) else 1
        check(self.version in BLOCK_HASHES, "a signature of a version that is not known")


def recipients(fields):
    found = []
    for _ in range(fields.number("H")):
        fields.short()
        found.append(fields.short())
    return found


def read_records(media):
    """All records, from the last to the first; checks that each follows the one before."""
    check(media[:16] == b"tdekit backup\0\0\0", "this is no media set")
    check(len(media) >= MEDIA_HEADER_LEN, "the media header is cut off")
    check(struct.unpack_from("<H", media, 16)[0] in (1, 2, 3, 4, 5), "it knows versions 1 to 5")
    check(sha256(media[:64]) == media[64:96], "the media header is damaged")
    found, end = [], len(media)
    while end > MEDIA_HEADER_LEN:
        trailer = Trailer(media[max(end - TRAILER_LEN, 0) : end])
        start = end - trailer.length
        check(MEDIA_HEADER_LEN <= start < end - TRAILER_LEN, "a record has an impossible length")
        found.append(Record(media, start, trailer))
        end = start
    found.reverse()
    previous = sha256(media[:MEDIA_HEADER_LEN])
    for ordinal, record in enumerate(found, 1):
        check(record.ordinal == ordinal, "a record is missing")
        check(record.previous == previous, "a record does not follow the one before")
        check(record.media_id == media[20:36], "a record is of another media set")
        previous = sha256(record.trailer.data)
    return found


# --- A set ---------------------------------------------------------------------------------------


class Set:
    """One backup set with its keys; what is not right is refused."""

    def __init__(self, media, all_records, record, unwrapped):
        self.media, self.record = media, record
        self.keys = None
        check(record.algorithm != "unknown", "this reader does not have the algorithm")
        if record.algorithm:
            self.keys = self.derive(unwrapped(self.wrapped(all_records)))
            self.authenticate(record)
        for other in all_records:
            if other.set_id == record.set_id and other.kind == 2:
                check(self.keys is not None, "recipients of a plain set")
                self.authenticate(other)
            elif other.set_id == record.set_id and other.kind == 3:
                self.verify_signature(other)
        self.blocks = self.read_index()

    def wrapped(self, all_records):
        found = list(self.record.recipients)
        for other in all_records:
            if other.kind == 2 and other.set_id == self.record.set_id:
                found += other.recipients
        return found

    def derive(self, secret):
        check(len(secret) == 32, "the secret has not 32 bytes")
        record, context = self.record, sha256(self.record.context)

        def key(purpose, length):
            name = record.algorithm.encode()
            info = b"tdekit backup/1/" + purpose + b"/" + name + b"/" + context
            return HKDF(hashes.SHA256(), length, record.set_id, info).derive(secret)

        check(key(b"commitment", 32) == record.commitment, "this is not the key of the set")
        lengths = {b"block": KEY_LEN[record.algorithm], b"header mac": 32, b"trailer mac": 32}
        return {purpose: key(purpose, length) for purpose, length in lengths.items()}

    def authenticate(self, record):
        trailer = record.trailer.data
        check(mac(self.keys[b"header mac"], record.raw[:-32]) == record.raw[-32:], "header forged")
        check(mac(self.keys[b"trailer mac"], trailer[:216]) == trailer[216:248], "trailer forged")

    def verify_signature(self, record):
        trailer = sha256(self.record.trailer.data)
        check(record.signed_trailer == trailer, "another trailer is signed")
        digests = b"".join(BLOCK_HASHES[record.version](block) for block in self.raw_blocks())
        check(record.signed_content == sha256(digests), "other blocks are signed")
        message = f"tdekit backup signature/{record.version}".encode()
        message += record.media_id + record.set_id
        message += record.signed_trailer + record.signed_content
        key = load_der_x509_certificate(record.certificate).public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            scheme = (ec.ECDSA(hashes.SHA384()),)
        else:
            scheme = (padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
        try:
            key.verify(record.signature, message, *scheme)
        except InvalidSignature:
            raise Refused("the signature does not hold") from None

    def index(self):
        trailer = self.record.trailer
        start = self.record.start + trailer.index_offset
        data = self.media[start : start + trailer.index_len]
        check(sha256(data) == trailer.index_sha256, "the index is damaged")
        return data

    def raw_blocks(self):
        for at in range(8, self.record.trailer.index_len, 32):
            offset, _, _, stored = struct.unpack_from("<QQII", self.index(), at)
            start = self.record.start + offset
            yield self.media[start : start + 64 + stored]

    def read_index(self):
        data, trailer = self.index(), self.record.trailer
        check(data[:8] == struct.pack("<4sI", b"tidx", trailer.blocks), "no index stands here")
        check(len(data) == 8 + 32 * trailer.blocks, "the index has another length")
        entries, offset = [], trailer.header_len
        for at in range(8, len(data), 32):
            entry = struct.unpack_from("<QQIIBBHI", data, at)
            check(entry[0] == offset and entry[6] == 0, "blocks do not lie one behind the other")
            check((entry[4] == METADATA) == (at + 32 == len(data)), "metadata is not the last")
            offset += 64 + entry[3]
            entries.append(entry)
        check(offset == trailer.index_offset, "the index is not behind the last block")
        check(offset + len(data) + TRAILER_LEN == trailer.length, "the lengths do not add up")
        return entries

    def open_blocks(self):
        """(kind, first page of the index, payload) of each block."""
        record = self.record
        cipher = SubkeyGcm(self.keys[b"block"]) if self.keys else None
        zstd = zstandard.ZstdDecompressor()
        for number, (entry, raw) in enumerate(zip(self.blocks, self.raw_blocks())):
            check(len(raw) >= 64, "a block is cut off")
            magic, kind, flags, zero, index, length, stored = struct.unpack_from("<4sBBHQII", raw)
            nonce, checksum = raw[24:48], struct.unpack_from("<Q", raw, 48)[0]
            check(magic == b"tblk" and zero == 0 and not any(raw[56:64]), "no block stands here")
            check(index == number, "another block stands where this one is due")
            same = (checksum, length, stored, kind, flags) == entry[1:6]
            check(same and len(raw) == 64 + stored, "a block is not the one of the index")
            check(flags & ~COMPRESSED == (LAST if kind == METADATA else 0), "flags of another kind")
            limit = {DATA: record.block_size + 8, PAGE_MAP: 8 + 2**20}.get(kind, 2**20)
            check(0 < length <= limit, "a payload is too long")
            payload = raw[64:]
            if cipher:
                aad = record.set_id + struct.pack("<HH", record.family, 0) + raw[:24]
                payload = cipher.open(nonce, payload, aad)
            if flags & COMPRESSED:
                check(record.compression == 2, "this reader has zstd only")
                try:
                    payload = zstd.decompress(payload, max_output_size=length)
                except zstandard.ZstdError:
                    raise Refused("a block does not decompress") from None
            check(len(payload) == length, "a payload has another length")
            yield kind, entry[7], payload


class Reader:
    def __init__(self, private_key):
        self.private_key, self.unwrapped = private_key, {}

    def unwrap(self, wrapped):
        """RSA takes most of the time of a small set: once for the same recipients."""
        key = b"".join(wrapped)
        if key not in self.unwrapped:
            self.unwrapped[key] = unwrap(wrapped, self.private_key)
        return self.unwrapped[key]

    def restore(self, media, position):
        """The content of the set at this position, and the records that it is in."""
        found = read_records(media)
        sets = [record for record in found if record.kind == 1]
        record = next((each for each in sets if each.position == position), None)
        check(record is not None, "there is no set at this position")
        check(record.families == 1, "this reader does not join the files of a striped set")
        opened = Set(media, found, record, self.unwrap)
        if record.source == 2:
            return b"".join(p for kind, _, p in opened.open_blocks() if kind == DATA), [record]
        check(record.type != 3, "a log set alone is no database")
        used = [record]
        database = bytearray(record.pages * record.page_size)
        while used[-1].type != 1:
            of = used[-1]
            before = sets[: sets.index(of)]
            base = next((each for each in before if each.set_id == of.base_id), None)
            # A log backup stands on a full set or on the log backup before it.
            kinds = (1,) if of.type == 2 else (1, 4)
            check(base is not None and base.type in kinds, "the base is not here")
            check(sha256(base.trailer.data) == of.base_trailer, "another set is the base")
            used.append(base)
        for each in reversed(used[1:]):
            self.put_pages(Set(media, found, each, self.unwrap), database)
        self.put_pages(opened, database)
        return bytes(database), used

    def put_pages(self, opened, database):
        record, next_page = opened.record, 1
        size = record.page_size
        for kind, first, payload in opened.open_blocks():
            if kind == METADATA:
                check(isinstance(json.loads(payload), dict), "the metadata is no JSON object")
            if kind != DATA:
                continue
            if record.type == 1:
                zero, first_page = struct.unpack_from("<II", payload)
                numbers = range(first_page, first_page + (len(payload) - 8) // size)
                check(zero == 0 and first_page == next_page, "pages are left out")
                next_page, body = numbers.stop, payload[8:]
            else:
                count, zero = struct.unpack_from("<II", payload)
                check(zero == 0 and len(payload) == 8 + count * (4 + size), "pages are cut off")
                numbers = struct.unpack_from(f"<{count}I", payload, 8)
                check(list(numbers) == sorted(set(numbers)), "page numbers do not ascend")
                check(numbers[0] >= next_page and numbers[0] > 0, "page numbers do not ascend")
                next_page, body = numbers[-1] + 1, payload[8 + 4 * count :]
            check(numbers[0] == first, "a page number is not the one of the index")
            for at, number in enumerate(numbers):
                # A differential set can be of a database that has become shorter.
                if number * size <= len(database):
                    page = body[at * size : (at + 1) * size]
                    database[(number - 1) * size : number * size] = page
        check(record.type != 1 or next_page == record.pages + 1, "pages are missing")

    def restore_archive(self, directory, point):
        """The database of an archive at a point, such as 43.17 or 43."""
        number, _, wanted = point.partition(".")
        number = int(number)
        first = self.object(directory, number).record.first
        first = first or number
        database, before = Database(), None
        for each in range(first, number + 1):
            opened = self.object(directory, each)
            record = opened.record
            if each == first:
                check(record.type == 1, "a chain begins with a full set")
                metadata = [p for kind, _, p in opened.open_blocks() if kind == METADATA]
                place = opened.record.place or json.loads(metadata[0]).get("archive_number")
                check(place == each, "it is of another place")
                database.size = record.page_size
                database.bytes = bytearray(record.pages * record.page_size)
                self.put_pages(opened, database.bytes)
                chain = record.set_id
            else:
                check(record.type == 3 and record.number == each, "an object of another place")
                check(record.first == first and record.chain == chain, "it is of another chain")
                check(record.base_id == before.set_id, "an object does not follow the one before")
                check(record.base_trailer == sha256(before.trailer.data), "another set is before")
                until = int(wanted) if wanted and each == number else record.transactions
                check(until <= record.transactions, "there is no such transaction")
                self.put_log(opened, database, until)
            before = record
        return bytes(database.bytes)

    def object(self, directory, number):
        with open(os.path.join(directory, f"{number:016}.tdekit"), "rb") as file:
            media = file.read()
        found = read_records(media)
        sets = [record for record in found if record.kind == 1]
        check(len(sets) == 1 and sets[0].families == 1, "an object does not hold one set")
        return Set(media, found, sets[0], self.unwrap)

    def put_log(self, opened, database, until):
        record, ended, before = opened.record, 0, 0
        check(record.page_size == database.size, "another page size")
        for kind, first, payload in opened.open_blocks():
            if kind != DATA:
                continue
            check(first == ended + 1, "a transaction is not the one of the index")
            for page, pages, time, change in log_entries(payload, record):
                check(page > before and bool(pages) >= bool(time), "an entry is not of a page")
                if ended < until:
                    database.put(page, change)
                before = page
                if pages > 0:
                    check(page <= pages, "a page is beyond the end")
                    if ended < until:
                        database.cut(pages)
                    ended, before = ended + 1, 0
        check(ended == record.transactions and before == 0, "transactions are missing")


def log_entries(payload, record):
    """(page number, size, time, what is stored of the page) of each entry of a block."""
    count, runs = struct.unpack_from("<II", payload)
    check(count > 0, "a block without pages")
    size, body = record.page_size, Fields(payload, 8)
    if not record.flags & CHANGES:
        check(runs == 0, "a block of whole pages has no runs")
        entries = [struct.unpack("<IIq", body.take(16)) for _ in range(count)]
        for page, pages, time in entries:
            yield page, pages, time, (None, False, [(0, body.take(size))])
        body.end()
        return
    entries = [struct.unpack("<IIqQHBB", body.take(28)) for _ in range(count)]
    bounds = [struct.unpack("<HH", body.take(4)) for _ in range(runs)]
    check(sum(entry[4] for entry in entries) == runs, "runs of no page")
    for page, pages, time, digest, own, on_state, zero in entries:
        check(on_state in (0, 1) and zero == 0, "a page stands on nothing that is known")
        found, end = [], -1
        for at, length in bounds[:own]:
            check(at > end and at + length + 1 <= size, "the runs of a page are not in order")
            found.append((at, body.take(length + 1)))
            end = at + length + 1
        del bounds[:own]
        yield page, pages, time, (digest, on_state == 1, found)
    body.end()


class Database:
    """The pages of an archive's database, going on from transaction to transaction."""

    def put(self, page, change):
        digest, on_state, runs = change
        start = (page - 1) * self.size
        state = bytearray(self.size)
        if on_state:
            check(start < len(self.bytes), "a page stands on a state that there is not")
            state[:] = self.bytes[start : start + self.size]
        for at, data in runs:
            state[at : at + len(data)] = data
        check(digest in (None, xxhash.xxh3_64_intdigest(bytes(state))), "a page is another one")
        if start + self.size > len(self.bytes):
            self.bytes.extend(bytes(start + self.size - len(self.bytes)))
        self.bytes[start : start + self.size] = state

    def cut(self, pages):
        self.bytes.extend(bytes(max(pages * self.size - len(self.bytes), 0)))
        del self.bytes[pages * self.size :]


def flip(reader, media, position):
    """Changes one bit at a time; counts refusals."""
    content, used = reader.restore(media, position)
    refused = same = 0
    changed = bytearray(media)
    places = list(range(MEDIA_HEADER_LEN))
    for record in used:
        end = record.start + record.trailer.length
        head = record.start + record.trailer.header_len + 200
        places += range(record.start, min(head, end))
        places += range(head, end - 400, 29)
        places += range(max(head, end - 400), end)
    for place in places:
        changed[place] ^= 1 << place % 8
        try:
            if reader.restore(bytes(changed), position)[0] != content:
                raise SystemExit(f"a flipped bit at {place} gives other content")
            same += 1
        except Refused:
            refused += 1
        changed[place] ^= 1 << place % 8
    if same > 0 or refused != len(places):
        raise SystemExit(f"{same} of {len(places)} flipped bits were not seen")
    print(f"media-reader: {refused} flipped bits refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("media")
    parser.add_argument("--key", required=True, help="private key, PEM")
    parser.add_argument("--password", help="of the private key")
    parser.add_argument("--position", type=int)
    parser.add_argument("--at", help="a point of an archive, such as 43.17")
    parser.add_argument("--to", help="where the content goes")
    parser.add_argument("--flip", action="store_true")
    arguments = parser.parse_args()
    with open(arguments.key, "rb") as file:
        password = arguments.password.encode() if arguments.password else None
        reader = Reader(serialization.load_pem_private_key(file.read(), password))
    try:
        if arguments.at:
            content = reader.restore_archive(arguments.media, arguments.at)
            with open(arguments.to, "wb") as file:
                file.write(content)
            print(f"media-reader: {len(content)} bytes of {arguments.at}")
            return
        with open(arguments.media, "rb") as file:
            media = file.read()
        if arguments.flip:
            flip(reader, media, arguments.position)
        if arguments.to:
            content, used = reader.restore(media, arguments.position)
            with open(arguments.to, "wb") as file:
                file.write(content)
            algorithm = used[0].algorithm or "no encryption"
            print(f"media-reader: {len(content)} bytes of set {arguments.position}, {algorithm}")
    except Refused as error:
        sys.exit(f"media-reader: {error}")


if __name__ == "__main__":
    main()
