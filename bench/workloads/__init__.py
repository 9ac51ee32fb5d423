"""Workloads: from query files and captures, and made up for a cluster with the right answers.

==============  ===================================================
`arguments`     the command line of all that
`mix`           kinds of questions and their shares
`oracle`        right answers, from the objects of a `cluster`
`resolver`      what the C library in a pod makes of a name
`queryfile`     dnsperf's files
`recorded`      pcap, pcapng and dnstap
`synthetic`     made-up clusters: ``fastdns-bench cluster``
`zonefile`      made-up zones: ``fastdns-bench zone``
==============  ===================================================
"""

from fastdns.bench.workloads.arguments import add_workload_arguments, workload_from

__all__ = ["add_workload_arguments", "workload_from"]
