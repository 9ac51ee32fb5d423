"""The process around the engine: command line, server blocks to servers, life cycle, signals, reload."""
