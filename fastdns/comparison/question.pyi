"""A question as another server is asked it; the contract is in question.pxd."""

def question_of(message: bytes, wide: bool = False) -> bytes:
    """The question of a query or of a reply, with id 0; empty where it is not one for another server. ``wide``: the reply need not fit a client's UDP."""

def is_answer(reply: bytes, question: bytes) -> bool:
    """Whether it has QR, and the same question (RFC 5452 9.1); ids are not compared."""
