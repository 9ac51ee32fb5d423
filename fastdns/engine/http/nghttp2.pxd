"""What is used of libnghttp2 (https://nghttp2.org/documentation/)."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int32_t
from fastdns.engine.http.request cimport nghttp2_session

cdef extern from "<nghttp2/nghttp2.h>" nogil:
    enum:
        NGHTTP2_FLAG_NONE
        NGHTTP2_FLAG_END_STREAM
        NGHTTP2_FLAG_ACK
        NGHTTP2_NV_FLAG_NO_COPY_NAME
        NGHTTP2_NV_FLAG_NO_COPY_VALUE
        NGHTTP2_DATA_FLAG_EOF
        NGHTTP2_DATA_FLAG_NO_END_STREAM
        NGHTTP2_DATA
        NGHTTP2_HEADERS
        NGHTTP2_RST_STREAM
        NGHTTP2_SETTINGS
        NGHTTP2_PUSH_PROMISE
        NGHTTP2_GOAWAY
        NGHTTP2_HCAT_REQUEST
        NGHTTP2_SETTINGS_ENABLE_PUSH
        NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
        NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES
        NGHTTP2_NO_ERROR
        NGHTTP2_PROTOCOL_ERROR
        NGHTTP2_FLOW_CONTROL_ERROR
        NGHTTP2_INTERNAL_ERROR
        NGHTTP2_STREAM_CLOSED
        NGHTTP2_REFUSED_STREAM
        NGHTTP2_CANCEL
        NGHTTP2_ENHANCE_YOUR_CALM
        NGHTTP2_ERR_BAD_CLIENT_MAGIC
        NGHTTP2_ERR_CALLBACK_FAILURE
        NGHTTP2_ERR_NOMEM
        NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
        NGHTTP2_ERR_FATAL

    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass
    ctypedef struct nghttp2_mem:
        void *mem_user_data
        void *(*malloc)(size_t size, void *data) noexcept nogil
        void (*free)(void *pointer, void *data) noexcept nogil
        void *(*calloc)(size_t count, size_t size, void *data) noexcept nogil
        void *(*realloc)(void *pointer, size_t size, void *data) noexcept nogil
    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef struct nghttp2_headers:
        int cat
    ctypedef struct nghttp2_rst_stream:
        uint32_t error_code
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers
        nghttp2_rst_stream rst_stream
    ctypedef union nghttp2_data_source:
        void *ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(nghttp2_session *session, int32_t stream, uint8_t *out, size_t size, uint32_t *flags,
                                                          nghttp2_data_source *source, void *data) noexcept nogil
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback

    ctypedef int (*nghttp2_on_frame_callback)(nghttp2_session *session, const nghttp2_frame *frame, void *data) noexcept nogil
    ctypedef int (*nghttp2_on_begin_frame_callback)(nghttp2_session *session, const nghttp2_frame_hd *head, void *data) noexcept nogil
    ctypedef int (*nghttp2_on_header_callback)(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                                               const uint8_t *value, size_t length, uint8_t flags, void *data) noexcept nogil
    ctypedef int (*nghttp2_on_data_chunk_recv_callback)(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *octets, size_t length,
                                                        void *data) noexcept nogil
    ctypedef int (*nghttp2_on_stream_close_callback)(nghttp2_session *session, int32_t stream, uint32_t error, void *data) noexcept nogil

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks)
    void nghttp2_session_callbacks_set_on_begin_frame_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_begin_frame_callback callback)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_frame_callback callback)
    void nghttp2_session_callbacks_set_on_header_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_header_callback callback)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_data_chunk_recv_callback callback)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_frame_callback callback)
    void nghttp2_session_callbacks_set_on_frame_send_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_frame_callback callback)
    void nghttp2_session_callbacks_set_on_stream_close_callback(nghttp2_session_callbacks *callbacks, nghttp2_on_stream_close_callback callback)
    int nghttp2_option_new(nghttp2_option **option)
    void nghttp2_option_set_no_auto_window_update(nghttp2_option *option, int value)
    void nghttp2_option_set_no_closed_streams(nghttp2_option *option, int value)
    void nghttp2_option_set_peer_max_concurrent_streams(nghttp2_option *option, uint32_t count)
    int nghttp2_session_client_new2(nghttp2_session **session, const nghttp2_session_callbacks *callbacks, void *data, const nghttp2_option *option)
    int nghttp2_session_server_new3(nghttp2_session **session, const nghttp2_session_callbacks *callbacks, void *data, const nghttp2_option *option,
                                    nghttp2_mem *memory)
    void nghttp2_session_del(nghttp2_session *session)
    ssize_t nghttp2_session_mem_recv(nghttp2_session *session, const uint8_t *octets, size_t size)
    ssize_t nghttp2_session_mem_send(nghttp2_session *session, const uint8_t **octets)
    bint nghttp2_session_want_read(nghttp2_session *session)
    bint nghttp2_session_want_write(nghttp2_session *session)
    void *nghttp2_session_get_stream_user_data(nghttp2_session *session, int32_t stream)
    int nghttp2_session_set_stream_user_data(nghttp2_session *session, int32_t stream, void *data)
    int32_t nghttp2_session_get_last_proc_stream_id(nghttp2_session *session)
    int32_t nghttp2_session_get_stream_remote_window_size(nghttp2_session *session, int32_t stream)
    uint32_t nghttp2_session_get_remote_settings(nghttp2_session *session, int id)
    int nghttp2_session_set_local_window_size(nghttp2_session *session, uint8_t flags, int32_t stream, int32_t size)
    int nghttp2_session_consume_connection(nghttp2_session *session, size_t size)
    int nghttp2_session_consume_stream(nghttp2_session *session, int32_t stream, size_t size)
    int nghttp2_session_terminate_session(nghttp2_session *session, uint32_t error)
    int nghttp2_submit_settings(nghttp2_session *session, uint8_t flags, const nghttp2_settings_entry *entries, size_t count)
    int32_t nghttp2_submit_request(nghttp2_session *session, const void *priority, const nghttp2_nv *fields, size_t count,
                                   const nghttp2_data_provider *provider, void *data)
    int nghttp2_submit_response(nghttp2_session *session, int32_t stream, const nghttp2_nv *fields, size_t count, const nghttp2_data_provider *provider)
    int nghttp2_submit_trailer(nghttp2_session *session, int32_t stream, const nghttp2_nv *fields, size_t count)
    int nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags, int32_t stream, uint32_t error)
    const char *nghttp2_strerror(int error)
    const char *nghttp2_http2_strerror(uint32_t error)
