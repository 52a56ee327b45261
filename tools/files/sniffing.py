"""What a file is by its first bytes, whatever its name says. Pure functions over bytes."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_KNOWN = (
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program or library"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"BM", "bitmap image"),
    (b"II*\x00", "TIFF image"),
    (b"MM\x00*", "TIFF image"),
)


def image_type(start: bytes) -> str:
    """The MIME type of an image that models take; empty for anything else."""
    for magic, mime_type in _IMAGES:
        if start.startswith(magic):
            return mime_type
    return "image/webp" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else ""


def is_pdf(start: bytes) -> bool:
    return start.startswith(b"%PDF-")


def binary_kind(start: bytes) -> str:
    """What sort of binary file it is, as well as can be told."""
    for magic, kind in _KNOWN:
        if start.startswith(magic):
            return kind
    if start[4:8] == b"ftyp":
        return "MP4 media, or an image of that kind"
    return "unknown type"
