from fastdns.setup.config import Config

class LabelHandle:
    """A label of metadata, resolved."""

    #: What the label borrows from.
    kept: object
    #: Set by its handler as it answers, whatever the query's name.
    anywhere: bool

def is_label(text: str) -> bool:
    """Whether a text has the form of a label: something on each side of its first slash."""

def resolve(config: Config, text: str) -> LabelHandle:
    """What publishes a label in a server block, once all its directives are set up; the handle of an unset one if nobody does.

    A handler publishes by a method ``label(name)`` that gives a LabelHandle, or None.
    """
