"""The socket floor: the least that a UDP server on kernel sockets does for an answer.

It takes batches (recvmmsg), turns each query into a reply with one fixed A record (10.0.0.1) behind a compression pointer, and sends the batch
(sendmmsg): no parsing beyond the end of the question, no look-up. A server is judged as a multiple of what this costs.
"""

from typing import NoReturn

def serve(socket: int, wildcard: bool = False, ttl: int = 5) -> NoReturn:
    """Answers on the bound UDP socket (a descriptor) for ever, without the GIL.

    wildcard: the socket hands PKTINFO out (IPV6_RECVPKTINFO or IP_PKTINFO); replies then leave from the address that was asked.
    ttl: seconds, of the record. Raises OSError when receiving fails.
    """
