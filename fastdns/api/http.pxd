"""HTTP of a plugin's own connections to servers: libnghttp2, and what responses of HTTP/1.1 have in common with requests."""
from fastdns.engine.http.request cimport nghttp2_session
# A module that calls these is linked with libnghttp2 (setup.py: OVER).
from fastdns.engine.http.nghttp2 cimport (NGHTTP2_CANCEL, NGHTTP2_DATA, NGHTTP2_DATA_FLAG_EOF, NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE,
                                          NGHTTP2_FLAG_END_STREAM, NGHTTP2_FLAG_NONE, NGHTTP2_GOAWAY, NGHTTP2_HEADERS, NGHTTP2_NV_FLAG_NO_COPY_NAME,
                                          NGHTTP2_NV_FLAG_NO_COPY_VALUE, NGHTTP2_REFUSED_STREAM, NGHTTP2_SETTINGS_ENABLE_PUSH,
                                          NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, nghttp2_data_provider, nghttp2_data_source, nghttp2_frame,
                                          nghttp2_http2_strerror, nghttp2_nv, nghttp2_option, nghttp2_option_new, nghttp2_option_set_no_closed_streams,
                                          nghttp2_option_set_peer_max_concurrent_streams, nghttp2_session_callbacks, nghttp2_session_callbacks_new,
                                          nghttp2_session_callbacks_set_on_data_chunk_recv_callback, nghttp2_session_callbacks_set_on_frame_recv_callback,
                                          nghttp2_session_callbacks_set_on_header_callback, nghttp2_session_callbacks_set_on_stream_close_callback,
                                          nghttp2_session_client_new2, nghttp2_session_del, nghttp2_session_get_stream_user_data, nghttp2_session_mem_recv,
                                          nghttp2_session_mem_send, nghttp2_session_set_local_window_size, nghttp2_session_want_read,
                                          nghttp2_session_want_write, nghttp2_settings_entry, nghttp2_strerror, nghttp2_submit_request,
                                          nghttp2_submit_rst_stream, nghttp2_submit_settings)
# Frames that a peer sends without need (frames.pxd).
from fastdns.engine.http.frames cimport FRAME_DATA, FrameScan, frame_length, frame_weight, frames_are_idle, frames_before, frames_next
# Responses of HTTP/1.1, and bodies in chunks.
from fastdns.engine.http.head cimport (HEAD_COMPLETE, HEAD_INCOMPLETE, HttpChunks, HttpHead, http_digit, http_join_chunks, http_lacks_end,
                                       http_parse_status, http_scan_chunks)
