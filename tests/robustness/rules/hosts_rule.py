"""The lines of a *hosts* block in Python, with `fallthrough`: ``plugin hosts_rule.py NAME=ADDRESS...``."""

import ipaddress

from fastdns.plugin import PASS, Plugin

after = "hosts"


class Hosts(Plugin):
    def __init__(self, lines):
        self.addresses = {}
        self.names = {}
        for name, address in lines:
            self.addresses.setdefault(f"{name}.", []).append(address)
            self.names.setdefault(f"{ipaddress.ip_address(address).reverse_pointer}.", []).append(name)

    def serve(self, query):
        if query.type == "PTR":
            names = self.names.get(query.name)
            return query.reply(*(f"{query.name} PTR {name}." for name in names)) if names else PASS
        found = self.addresses.get(query.name)
        if found is None:
            return PASS.remember(60)
        version = {"A": 4, "AAAA": 6}.get(query.type)
        records = [f"{query.name} {query.type} {address}" for address in found if ipaddress.ip_address(address).version == version]
        # What is remembered for one name has that name in the letters of each question; *hosts* has it in lower case.
        return query.reply(*records) if records else query.reply().remember(60)


def setup(controller):
    controller.next()
    return Hosts([word.split("=") for word in controller.remaining_args()])
