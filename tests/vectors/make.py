#!/usr/bin/env python3
"""Makes the JSON files beside it. Run once when a source changes; the results are in git.

    pip install cryptography argon2-cffi pyaegis
    pip download --no-deps cryptography-vectors && unzip cryptography_vectors-*.whl
    make.py PATH/cryptography_vectors PATH/aegis-0.9.20/src/test-vectors

The first path is the package of test vectors of pyca/cryptography, the second a directory of the
crate `aegis`. What comes from a standard is only trimmed; `tdekit-*.json` is computed by libraries
that tdekit does not use: OpenSSL (pyca/cryptography), the reference Argon2 (argon2-cffi), libaegis
from Python (pyaegis). `google-hctr2-aes-256.json` was trimmed by hand.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parent
PYCA = "pyca/cryptography test vectors (cryptography-vectors 50.0.2)"
NIST = "public domain (work of the United States government)"
IETF = "facts from an RFC; code components under the Revised BSD License"


def write(name, source, licence, vectors):
    # One vector on each line, for small diffs.
    lines = ",\n".join("    " + json.dumps(vector) for vector in vectors)
    head = json.dumps({"source": source, "licence": licence}, indent=2)[:-2]
    (OUT / name).write_text(f'{head},\n  "vectors": [\n{lines}\n  ]\n}}\n')
    print(f"{name}: {len(vectors)} vectors")


def records(path):
    """Yields (section, fields) of a NIST response file; "FAIL" becomes a field."""
    section, fields = {}, {}
    fresh = True
    for line in path.read_text().splitlines() + [""]:
        line = line.split("#")[0].strip()
        if header := re.fullmatch(r"\[(.+?)(?:\s*=\s*(.+))?\]", line):
            if fresh:
                section, fresh = dict(section), False
            section[header[1]] = header[2]
            continue
        fresh = True
        if line == "FAIL":
            fields["FAIL"] = True
        elif "=" in line:
            key, value = (part.strip() for part in line.split("=", 1))
            if key.upper() == "COUNT" and len(fields) > 1:
                yield section, fields
                fields = {}
            fields[key] = value
        elif fields and not line and len(fields) > 2:
            yield section, fields
            fields = {}


def gcm(pyca):
    vectors = []
    for bits in (128, 192, 256):
        path = pyca / f"ciphers/AES/GCM/gcmDecrypt{bits}.rsp"
        taken = {}
        for section, f in records(path):
            if section["IVlen"] != "96" or section["Taglen"] != "128":
                continue
            valid = "FAIL" not in f
            shape = (section["PTlen"], section["AADlen"], valid)
            taken[shape] = taken.get(shape, 0) + 1
            if taken[shape] > 1:
                continue
            vectors.append({
                "key": f["Key"], "iv": f["IV"], "aad": f["AAD"], "pt": f.get("PT", ""),
                "ct": f["CT"], "tag": f["Tag"], "valid": valid,
            })
    write("nist-aes-gcm.json", f"NIST CAVP, gcmtestvectors.zip (96-bit IV, 128-bit tag); {PYCA}",
          NIST, vectors)


def kwp(pyca):
    vectors = []
    for name in ("KWP_AE_256", "KWP_AD_256"):
        taken = {}
        for section, f in records(pyca / f"keywrap/kwtestvectors/{name}.txt"):
            valid = "FAIL" not in f
            shape = (section["PLAINTEXT LENGTH"], valid)
            taken[shape] = taken.get(shape, 0) + 1
            if taken[shape] > (1 if shape[0] == "4096" else 3):
                continue
            vectors.append({"key": f["K"], "pt": f.get("P", ""), "ct": f["C"], "valid": valid})
    write("nist-aes-kwp.json", f"NIST CAVP, kwtestvectors.zip (AES-256 KWP); {PYCA}", NIST, vectors)


def tdes(pyca):
    vectors = [
        {"key": f["KEY1"] + f["KEY2"] + f["KEY3"], "iv": f["IV"],
         "pt": f["PLAINTEXT"], "ct": f["CIPHERTEXT"]}
        for _, f in records(pyca / "ciphers/3DES/CBC/TCBCMMT3.rsp")
    ]
    write("nist-tdes-cbc.json", f"NIST CAVP, tdesmmt.zip, TCBCMMT3; {PYCA}", NIST, vectors)


def kbkdf(pyca):
    vectors, taken = [], {}
    for section, f in records(pyca / "KDF/nist-800-108-KBKDF-CTR.txt"):
        prf = section.get("PRF", "")
        if (not prf.startswith("CMAC_AES") or section["RLEN"] != "16_BITS"
                or section["CTRLOCATION"] != "BEFORE_FIXED"):
            continue
        taken[prf, f["L"]] = taken.get((prf, f["L"]), 0) + 1
        if taken[prf, f["L"]] > 3:
            continue
        vectors.append({"prf": prf, "key": f["KI"], "fixed": f["FixedInputData"],
                        "out": f["KO"]})
    write("nist-kbkdf-cmac.json",
          f"NIST CAVP, KBKDF800-108 counter mode (CMAC, 16-bit counter first); {PYCA}",
          NIST, vectors)


def sha(pyca):
    vectors = []
    for name, path in (("SHA-256", "SHA2/SHA256"), ("SHA-1", "SHA1/SHA1")):
        for file, keep in (("ShortMsg", range(0, 65, 8)), ("LongMsg", range(0, 8, 7))):
            for at, (_, f) in enumerate(records(pyca / f"hashes/{path}{file}.rsp")):
                if at in keep:
                    msg = f["Msg"] if int(f["Len"]) else ""
                    vectors.append({"hash": name, "msg": msg, "digest": f["MD"]})
    write("nist-sha.json", f"NIST CAVP, shabytetestvectors.zip; {PYCA}", NIST, vectors)


def rfcs(pyca):
    vectors = [{"key": f["Key"], "msg": f["Msg"], "tag": f["MD"]}
               for f in loose(pyca / "HMAC/rfc-4231-sha256.txt", "Len")]
    write("rfc4231-hmac-sha256.json", f"RFC 4231; {PYCA}", IETF, vectors)
    vectors = [{"ikm": f["IKM"], "salt": f["salt"], "info": f["info"], "okm": f["OKM"]}
               for f in loose(pyca / "KDF/rfc-5869-HKDF-SHA256.txt", "COUNT")]
    write("rfc5869-hkdf-sha256.json", f"RFC 5869, A.1 to A.3; {PYCA}", IETF, vectors)
    vectors = [
        {"password": f["pass"], "salt": f["salt"], "secret": f.get("secret", ""),
         "ad": f.get("ad", ""), "memory_kib": int(f["memcost"]), "passes": int(f["iter"]),
         "lanes": int(f["lanes"]), "out": f["output"]}
        for f in loose(pyca / "KDF/argon2id.txt", "COUNT")
    ]
    write("rfc9106-argon2id.json", f"RFC 9106, 5.3, and the reference program; {PYCA}",
          IETF, vectors)


def loose(path, first):
    """Records of `key = value` lines, each starting with the key `first`."""
    found = []
    for line in path.read_text().splitlines():
        line = line.split("#")[0]
        if "=" not in line:
            continue
        key, value = (part.strip() for part in line.split("=", 1))
        if key == first:
            found.append({})
        found[-1][key] = value
    return found


def aegis(directory):
    vectors = []
    for name in ("128x2", "256x2"):
        for v in json.loads((directory / f"aegis-{name}-test-vectors.json").read_text()):
            if "tag128" in v or "error" in v:
                vectors.append({"algorithm": f"AEGIS-{name.upper()}", "key": v["key"],
                                "nonce": v["nonce"], "aad": v["ad"], "pt": v["msg"],
                                "ct": v["ct"], "tag": v["tag128"]})
    write("rfc10032-aegis.json", "RFC 10032, as carried by the crate aegis 0.9.20", "MIT", vectors)


def xaes():
    vectors = [
        {"key": "01" * 32, "nonce": b"ABCDEFGHIJKLMNOPQRSTUVWX".hex(), "aad": "",
         "pt": b"XAES-256-GCM".hex(), "ct": "ce546ef63c9cc60765923609",
         "tag": "b33a9a1974e96e52daf2fcf7075e2271"},
        {"key": "03" * 32, "nonce": b"ABCDEFGHIJKLMNOPQRSTUVWX".hex(),
         "aad": b"c2sp.org/XAES-256-GCM".hex(), "pt": b"XAES-256-GCM".hex(),
         "ct": "986ec1832593df5443a17943", "tag": "7fd083bf3fdb41abd740a21f71eb769d"},
    ]
    for vector in vectors:
        assert gcm_with_subkey(*(bytes.fromhex(vector[k]) for k in ("key", "nonce", "aad", "pt"))) \
            == bytes.fromhex(vector["ct"] + vector["tag"])
    write("c2sp-xaes-256-gcm.json", "C2SP XAES-256-GCM, c2sp.org/XAES-256-GCM",
          "CC BY 4.0", vectors)
    accumulated = [
        {"iterations": 10_000,
         "shake128": "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"},
        {"iterations": 1_000_000,
         "shake128": "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15"},
    ]
    write("c2sp-xaes-256-gcm-accumulated.json", "C2SP XAES-256-GCM, c2sp.org/XAES-256-GCM",
          "CC BY 4.0", accumulated)


def gcm_with_subkey(key, nonce, aad, plaintext):
    """tdekit's AES_128, AES_192 and AES_256, with OpenSSL's CMAC as the KDF's PRF."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFCMAC, CounterLocation, Mode
    fixed = b"X\x00" + nonce[:12]
    kdf = KBKDFCMAC(AES, Mode.CounterMode, length=len(key), rlen=2, llen=None,
                    location=CounterLocation.BeforeFixed, label=None, context=None, fixed=fixed)
    return AESGCM(kdf.derive(key)).encrypt(nonce[12:], plaintext, aad)


def triple_des_segment(key, nonce, aad, plaintext):
    """tdekit's TRIPLE_DES_3KEY."""
    import hmac
    from cryptography.hazmat.primitives import hashes, padding
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.ciphers import Cipher, modes
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    keys = HKDF(hashes.SHA256(), 64, nonce, b"tdekit TRIPLE_DES_3KEY segment v1").derive(key)
    padder = padding.PKCS7(64).padder()
    encryptor = Cipher(TripleDES(keys[:24]), modes.CBC(keys[56:])).encryptor()
    ciphertext = encryptor.update(padder.update(plaintext) + padder.finalize())
    mac = hmac.new(keys[24:56], len(aad).to_bytes(8, "little") + aad + ciphertext, "sha256")
    return ciphertext + mac.digest()


def times(a, b):
    """POLYVAL's product (RFC 8452): times x^-128, modulo x^128 + x^127 + x^126 + x^121 + 1."""
    product = 0
    for bit in range(128):
        product ^= (a << bit) * (b >> bit & 1)
    for _ in range(128):
        if product & 1:
            product ^= (1 << 128) | (1 << 127) | (1 << 126) | (1 << 121) | 1
        product >>= 1
    return product


def number(data):
    return int.from_bytes(data, "little")


def block(value):
    return value.to_bytes(16, "little")


def hctr2(key, tweak, plaintext):
    """HCTR2 with AES-256: AES by OpenSSL, POLYVAL by its definition in RFC 8452."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update

    def padded(data):
        return data + bytes(-len(data) % 16)

    hash_key = number(aes(bytes(16)))

    def digest(message):
        uneven = len(message) % 16 != 0
        header = block(len(tweak) * 16 + 2 + uneven)
        data = header + padded(tweak) + padded(message + b"\x01" * uneven)
        total = 0
        for at in range(0, len(data), 16):
            total = times(total ^ number(data[at:at + 16]), hash_key)
        return total

    head, rest = number(plaintext[:16]), plaintext[16:]
    inner = head ^ digest(rest)
    outer = number(aes(block(inner)))
    nonce = inner ^ outer ^ number(aes(block(1)))
    stream = b"".join(aes(block(nonce ^ i)) for i in range(1, len(rest) // 16 + 2))
    body = bytes(a ^ b for a, b in zip(rest, stream))
    return block(outer ^ digest(body)) + body


def gmac_wide_block(key, tweak, plaintext):
    """The wide block over GMAC: docs/crypto.md. AES and GMAC by OpenSSL."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    aes = Cipher(algorithms.AES(key[:32]), modes.ECB()).encryptor().update

    def digest(message):
        tags = (AESGCM(part).encrypt(bytes(12), b"", data)
                for part, data in ((key[32:64], message), (key[64:], tweak)))
        return number(next(tags)) ^ number(next(tags))

    head, rest = number(plaintext[:16]), plaintext[16:]
    inner = head ^ digest(rest)
    outer = number(aes(block(inner)))
    nonce = inner ^ outer ^ number(aes(block(1)))
    stream = b"".join(aes(block(nonce ^ i)) for i in range(1, len(rest) // 16 + 2))
    body = bytes(a ^ b for a, b in zip(rest, stream))
    return block(outer ^ digest(body)) + body


def online(key, iv, plaintext):
    """TC3 over LRW2, and FFX-A2's network for the tail: docs/crypto.md. AES by OpenSSL."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    aes = Cipher(algorithms.AES(key[:32]), modes.ECB()).encryptor().update
    aes_tail = Cipher(algorithms.AES(key[32:64]), modes.ECB()).encryptor().update
    hash_key = number(key[64:])

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b, strict=True))

    def tweaked(tweak, data):
        mask = block(times(number(tweak), hash_key))
        return xor(aes(xor(data, mask)), mask)

    whole = len(plaintext) // 16 * 16
    message = iv + plaintext[:whole]
    chain, out = bytes(16), b""
    for at in range(0, len(message), 16):
        sealed = tweaked(chain, message[at:at + 16])
        chain = xor(message[at:at + 16], sealed)
        out += sealed
    tail = plaintext[whole:]
    if not tail:
        return out[16:]
    # As in FFX: bits, in two halves.
    bits = "".join(f"{byte:08b}" for byte in tail)
    half = len(bits) // 2
    left, right = bits[:half], bits[half:]
    rounds = {1: 36, 2: 24, 3: 18}.get(len(tail), 12)
    for i in range(rounds):
        data = bytes([len(tail), i]) + bytes(6) + int(right, 2).to_bytes(8, "big")
        mac = aes_tail(xor(aes_tail(chain), data))
        stream = "".join(f"{byte:08b}" for byte in mac)[-half:]
        left, right = right, "".join(str(int(a) ^ int(b)) for a, b in zip(left, stream))
    return out[16:] + int(left + right, 2).to_bytes(len(tail), "big")


def streams():
    def fill(label, length):
        return hashlib.shake_128(label.encode()).digest(length)

    vectors = []
    for len_ in (*range(34), 48, 63, 255, 256, 1003):
        tag = f"online {len_}"
        key, iv, pt = fill(tag + " key", 80), fill(tag + " iv", 16), fill(tag + " pt", len_)
        vectors.append({"key": key.hex(), "iv": iv.hex(), "pt": pt.hex(),
                        "ct": online(key, iv, pt).hex()})
    write("tdekit-online.json", "computed by make.py (OpenSSL, RFC 8452)", "as tdekit", vectors)


def constructions():
    import pyaegis

    def seal_aegis_128x2(key, nonce, aad, pt):
        return pyaegis.Aegis128X2(16).encrypt(key, nonce[8:], pt, nonce[:8] + aad)

    def seal_aegis_256x2(key, nonce, aad, pt):
        return pyaegis.Aegis256X2(16).encrypt(key, nonce + bytes(8), pt, aad)

    def fill(label, length):
        return hashlib.shake_128(label.encode()).digest(length)

    ciphers = [("AES_128", 16, gcm_with_subkey), ("AES_192", 24, gcm_with_subkey),
               ("AES_256", 32, gcm_with_subkey), ("AEGIS_128X2", 16, seal_aegis_128x2),
               ("AEGIS_256X2", 32, seal_aegis_256x2)]
    vectors = []
    for name, key_len, seal in ciphers:
        for aad_len, len_ in ((0, 0), (32, 1), (28, 512), (32, 1000), (200, 100)):
            tag = f"{name} {aad_len} {len_}"
            key, nonce = fill(tag + " key", key_len), fill(tag + " nonce", 24)
            aad, pt = fill(tag + " aad", aad_len), fill(tag + " pt", len_)
            sealed = bytes(seal(key, nonce, aad, pt))
            vectors.append({"algorithm": name, "key": key.hex(), "nonce": nonce.hex(),
                            "aad": aad.hex(), "pt": pt.hex(), "ct": sealed[:-16].hex(),
                            "tag": sealed[-16:].hex()})
    write("tdekit-sealing.json", "computed by make.py (OpenSSL, pyaegis)", "as tdekit", vectors)

    vectors = []
    for aad_len, len_ in ((0, 0), (16, 7), (16, 8), (32, 300)):
        tag = f"3DES {aad_len} {len_}"
        key, nonce = fill(tag + " key", 24), fill(tag + " nonce", 24)
        aad, pt = fill(tag + " aad", aad_len), fill(tag + " pt", len_)
        vectors.append({"key": key.hex(), "nonce": nonce.hex(), "aad": aad.hex(), "pt": pt.hex(),
                        "sealed": triple_des_segment(key, nonce, aad, pt).hex()})
    write("tdekit-triple-des.json", "computed by make.py (OpenSSL)", "as tdekit", vectors)

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    vectors = []
    for len_ in (512, 4096, 65536):
        key, page = fill(f"fingerprint key {len_}", 32), fill(f"fingerprint page {len_}", len_)
        tag = AESGCM(key).encrypt(bytes(12), b"", page)
        vectors.append({"key": key.hex(), "page_shake128": f"fingerprint page {len_}",
                        "page_len": len_, "tag": tag.hex()})
    write("tdekit-fingerprint.json", "computed by make.py (OpenSSL)", "as tdekit", vectors)

    vectors = []
    for len_ in (978, 4066, 8162, 16354, 16338):
        tag = f"HCTR2 {len_}"
        key, tweak, pt = fill(tag + " key", 32), fill(tag + " tweak", 16), fill(tag + " pt", len_)
        vectors.append({"key": key.hex(), "tweak": tweak.hex(), "pt_shake128": tag + " pt",
                        "len": len_,
                        "ct_sha256": hashlib.sha256(hctr2(key, tweak, pt)).hexdigest()})
    write("tdekit-hctr2.json", "computed by make.py (OpenSSL, RFC 8452)", "as tdekit", vectors)

    vectors = []
    for len_, tweak_len in ((16, 0), (17, 1), (31, 16), (32, 15), (978, 16), (4066, 16),
                            (16354, 16), (16338, 40)):
        tag = f"GMAC wide block {len_}"
        key, tweak = fill(tag + " key", 96), fill(tag + " tweak", tweak_len)
        sealed = gmac_wide_block(key, tweak, fill(tag + " pt", len_))
        vectors.append({"key": key.hex(), "tweak": tweak.hex(), "pt_shake128": tag + " pt",
                        "len": len_, "ct_sha256": hashlib.sha256(sealed).hexdigest()})
    write("tdekit-gmac-wide-block.json", "computed by make.py (OpenSSL)", "as tdekit", vectors)

    from argon2.low_level import Type, hash_secret_raw
    vectors = []
    for password, memory_kib, passes, lanes, len_ in (
            (b"correct horse battery staple", 65536, 3, 1, 32),
            ("pässwörd".encode(), 8192, 1, 2, 64)):
        salt = fill(f"argon2 {memory_kib}", 16)
        out = hash_secret_raw(password, salt, passes, memory_kib, lanes, len_, Type.ID)
        vectors.append({"password": password.hex(), "salt": salt.hex(), "memory_kib": memory_kib,
                        "passes": passes, "lanes": lanes, "out": out.hex()})
    write("tdekit-password.json", "computed by make.py (reference Argon2)", "as tdekit", vectors)


def headers():
    """A header slot of docs/format/page.md, format version 3: its key changes to another
    algorithm."""
    import hmac
    dek, file_id, sequence, log2_page = bytes([9]) * 32, bytes([3]) * 16, 1, 12

    def derived(purpose, algorithm):
        key = hmac.digest(file_id, dek, "sha256")
        info = b"tdekit/1/" + purpose + b"/" + algorithm
        return hmac.digest(key, info + b"\x01", "sha256")

    def number(value, len_):
        return value.to_bytes(len_, "little")

    vectors = []
    for features in (0, 1):
        versions = [(1, 1_700_000_000, 3, b"AES_256", [bytes([1]) * 470, bytes([2]) * 470]),
                    (2, 1_800_000_000, 5, b"AEGIS_256X2", [bytes([3]) * 470])]
        body = b"tdekit database\0" + number(3, 2) + bytes([5, log2_page]) + bytes(4)
        body += number(sequence, 8) + file_id + number(2, 4) + number(len(versions), 2)
        body += bytes([features]) + bytes(17)
        for version, created, algorithm, name, wrapped in versions:
            body += number(version, 4) + number(created, 8) + derived(b"commitment", name)
            body += number(len(wrapped), 2) + bytes([algorithm, 0])
            body += b"".join(number(len(key), 2) + key for key in wrapped)
        body = body[:20] + number(len(body), 2) + body[22:]
        checksum = hashlib.sha256(body).digest()
        mac = hmac.digest(derived(b"header mac", b"AEGIS_256X2"), body + checksum, "sha256")
        slot = (body + checksum + mac).ljust(8192, b"\0")
        vectors.append({"features": features, "dek": dek.hex(), "file_id": file_id.hex(),
                        "body_len": len(body), "slot_sha256": hashlib.sha256(slot).hexdigest()})
    write("tdekit-header.json", "computed by make.py (Python's hmac)", "as tdekit", vectors)


def wrapped_keys():
    """Keys wrapped for EC certificates, with ephemeral keys that are given."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

    def pair(label):
        secret = int.from_bytes(hashlib.sha384(label).digest(), "big") >> 1
        return ec.derive_private_key(secret, ec.SECP384R1())

    def point(key):
        return key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)

    vectors = []
    for len_ in (1, 16, 24, 32, 190):
        own, ephemeral = pair(b"certificate %d" % len_), pair(b"ephemeral %d" % len_)
        shared = ephemeral.exchange(ec.ECDH(), own.public_key())
        info = b"tdekit wrap v1 ECDH P-384" + point(ephemeral) + point(own)
        wrapping_key = HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(shared)
        key = bytes(range(len_))
        pkcs8 = own.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8,
                                  serialization.NoEncryption())
        blob = point(ephemeral) + aes_key_wrap_with_padding(wrapping_key, key)
        vectors.append({"pkcs8": pkcs8.hex(), "key": key.hex(), "blob": blob.hex()})
    write("tdekit-ecdh-wrap.json", "computed by make.py (OpenSSL)", "as tdekit", vectors)


def main():
    pyca, aegis_vectors = map(Path, sys.argv[1:])
    for part in (gcm, kwp, tdes, kbkdf, sha, rfcs):
        part(pyca)
    aegis(aegis_vectors)
    xaes()
    constructions()
    headers()
    streams()
    wrapped_keys()


if __name__ == "__main__":
    main()
