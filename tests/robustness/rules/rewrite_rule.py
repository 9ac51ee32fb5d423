"""Rules of *rewrite* in Python: ``plugin rewrite_rule.py name FROM TO``, whose answers lead back, and ``type FROM TO``."""

import dns.message
import dns.name
import dns.rdatatype

from fastdns.plugin import Plugin
from fastdns.protocol.parameters import type_number

before = "rewrite"


class Rename(Plugin):
    def __init__(self, source, target):
        self.source = dns.name.from_text(source)
        self.target = dns.name.from_text(target)

    async def serve(self, query, next):
        if query.name != self.source.to_text():
            return await next(query)
        return answered(query, await next(query, name=self.target.to_text()), {self.target.to_text(): self.source})


class Retype(Plugin):
    def __init__(self, source, target):
        self.source = source
        self.target = type_number(target)

    async def serve(self, query, next):
        return answered(query, await next(query, qtype=self.target), {}) if query.type == self.source else await next(query)


def answered(query, answer, owners):
    """The answer to another question as one to this."""
    if answer.failed:
        return query.fail(answer.rcode, answer.error)
    message = dns.message.from_wire(answer.message)
    question = message.question[0]
    question.name = dns.name.from_text(query.qname)
    question.rdtype = dns.rdatatype.RdataType.make(query.qtype)
    for section in (message.answer, message.authority, message.additional):
        for rrset in section:
            rrset.name = owners.get(rrset.name.to_text(), rrset.name)  # in these letters only, as *rewrite* and CoreDNS have it
    return message.to_wire()


def setup(controller):
    controller.next()
    field, source, target = controller.remaining_args()
    return Rename(source, target) if field == "name" else Retype(source, target)
