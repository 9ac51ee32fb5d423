def read_name(text: bytes) -> bytes | None:
    """Wire form of a name in presentation form, as `text_read_name` of ``text.pxd`` gives it; None when the text is not a name."""
