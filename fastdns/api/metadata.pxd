"""Metadata: values by labels such as ``forward/upstream``, computed for a query when somebody reads them; formats that use them."""
from fastdns.walk.metadata cimport Label, LabelHandle, label_func, label_read
from fastdns.walk.placeholders cimport Format, Operation, format_write
