"""Counters, gauges and histograms, written by workers without locks.

`Metric.cell` gives a child's cell on the control side (`attach` of a handler is the place); a hook adds to it with its worker's id.
"""
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Buckets, Metric, metric_add, metric_observe, metric_row, metric_width, row_observe
# How many cells a handler has that counts by server. Called for queries that no chain took (refused, no question).
from fastdns._mux cimport label_count, mux_count_dropped
