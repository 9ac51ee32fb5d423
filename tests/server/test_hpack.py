"""Encoded fields, read by the decoder of the package hpack."""

from __future__ import annotations

import hpack
import pytest

from fastdns.fronts.hpack import Encoder

FIELDS = [
    [(b":status", b"200"), (b"date", b"Sat, 21 Nov 2026 22:33:30 GMT"), (b"content-type", b"application/dns-message"), (b"cache-control", b"max-age=77")],
    [(b":status", b"404"), (b"content-length", b"1"), (b"x-content-type-options", b"nosniff")],
    [(b":status", b"431"), (b"a" * 200, b"b" * 5000), (b"c" * 127, b"")],
    [(b":status", b"500"), (b":status", b"400")],
]


@pytest.mark.parametrize("size", [4096, 0, 64])
def test_fields_are_decoded_as_they_were(size: int) -> None:
    encoder, decoder = Encoder(), hpack.Decoder()
    decoder.max_allowed_table_size = size
    for fields in FIELDS * 2:
        assert decoder.decode(encoder.encode(fields), raw=True) == fields
