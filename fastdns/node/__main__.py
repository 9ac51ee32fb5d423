"""``python -m fastdns.node`` is the command ``fastdns-node``."""

from fastdns.node.cli import main

if __name__ == "__main__":
    main()
