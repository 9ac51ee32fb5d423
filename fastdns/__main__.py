"""``python -m fastdns`` is the server, as the command ``fastdns`` is."""

from fastdns.server.cli import main

if __name__ == "__main__":
    main()
