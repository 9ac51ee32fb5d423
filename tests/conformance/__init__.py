"""The conformance corpus: cases with the recorded answers of CoreDNS 1.14.7, and a runner that replays them against any server that reads a Corefile."""
