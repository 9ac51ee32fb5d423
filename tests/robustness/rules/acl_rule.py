"""A list of *acl* policies in Python: ``plugin acl_rule.py [ZONE...] ACTION/TYPES/NETWORKS...``, lists with commas, empty for all."""

import ipaddress

from fastdns.plugin import PASS, Plugin

before = "acl"


class Acl(Plugin):
    def __init__(self, zones, policies):
        self.zones = zones or None
        self.policies = policies

    def serve(self, query):
        client = ipaddress.ip_address(query.client)
        for action, types, networks in self.policies:
            if (not types or query.type in types) and (not networks or any(client in network for network in networks)):
                verdict = PASS if action == "allow" else query.reply(rcode="REFUSED" if action == "block" else 0, authoritative=False)
                break
        else:
            verdict = PASS
        return verdict.remember(60, client=query.client)


def setup(controller):
    controller.next()
    zones, policies = [], []
    for word in controller.remaining_args():
        if ";" not in word:
            zones.append(word)
            continue
        action, types, networks = word.split(";")
        policies.append((action, set(filter(None, types.split(","))), [ipaddress.ip_network(text) for text in networks.split(",") if text]))
    return Acl(zones, policies)
