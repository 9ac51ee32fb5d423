"""Answers of two servers to the same question, compared: of live traffic (the plugin shadow), of files, of two Corefiles."""
