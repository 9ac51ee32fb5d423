"""Questions for another server, and replies compared: fastdns/comparison."""
from fastdns.comparison.canonical cimport Digest, digest_equal, digest_reply
from fastdns.comparison.question cimport QUESTION_MAX, question_write
