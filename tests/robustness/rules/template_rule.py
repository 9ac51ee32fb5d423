"""A *template* in Python that falls through: ``plugin template_rule.py TYPE|ANY ZONE REGEX RCODE [RDATA]``."""

import re

from fastdns.plugin import PASS, Plugin

after = "template"


class Template(Plugin):
    def __init__(self, qtype, zone, pattern, rcode, rdata):
        self.zones = [zone]
        self.qtype = qtype
        self.pattern = re.compile(pattern)
        self.rcode = rcode
        self.rdata = rdata

    def serve(self, query):
        if ("ANY" not in (self.qtype, query.type) and self.qtype != query.type) or query.qclass != 1 or not self.pattern.search(query.name):
            return PASS.remember(60)
        verdict = query.reply(*([f"{query.name} {self.qtype} {self.rdata}"] if self.rdata else []), rcode=self.rcode, ttl=60)
        return verdict if self.rdata else verdict.remember(60)


def setup(controller):
    controller.next()
    qtype, zone, pattern, rcode, *rdata = controller.remaining_args()
    return Template(qtype, zone, pattern, rcode, " ".join(rdata))
