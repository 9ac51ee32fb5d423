"""YAML as Kubernetes reads it: without time stamps, which are texts there."""

from __future__ import annotations

from typing import IO, Any, ClassVar

import yaml

Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(Base):  # type: ignore[misc]
    """A safe loader of one stream. ``dispose`` it."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Base.yaml_implicit_resolvers.items()
    }


def read_document(file: IO[bytes]) -> Any:
    """The only document of a file, None for an empty one. yaml.YAMLError, RecursionError, ValueError."""
    loader = Loader(file)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_documents(path: str) -> list[object]:
    """All documents of a file, by its path; JSON is YAML. ValueError with the file's name, OSError."""
    with open(path, "rb") as file:
        loader = Loader(file)
        try:
            found = []
            while loader.check_data():
                found.append(loader.get_data())
            return found
        except yaml.YAMLError as error:
            raise ValueError(f"{path}:{position(error)}: {problem(error)}") from None
        except RecursionError:
            raise ValueError(f"{path}: nested too deeply") from None
        finally:
            loader.dispose()


def position(error: yaml.YAMLError) -> str:
    """LINE:COLUMN of an error, "" where it has none."""
    mark = getattr(error, "problem_mark", None)
    return f"{mark.line + 1}:{mark.column + 1}" if mark is not None else ""


def problem(error: yaml.YAMLError) -> str:
    """What is wrong, in one line."""
    return str(getattr(error, "problem", None) or " ".join(str(error).split()))
