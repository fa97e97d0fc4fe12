/* Messages of clients, whole and well-formed, for fuzzers that mix them with raw bytes: requests of
 * HTTP/1.1, frames and requests of HTTP/2, calls of gRPC. All functions append to a text, are
 * inline and take any index; there is no .c file. */
#ifndef TT_TESTS_FUZZ_WIRE_MESSAGES_H
#define TT_TESTS_FUZZ_WIRE_MESSAGES_H

#include "base/err.h"
#include "base/text.h"

#include <string.h>

#define WIRE_BODY                                                                                  \
    "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}]}"
#define WIRE_AT(table, index) (&(table)[(size_t)(index) % TT_COUNT(table)])

enum { WIRE_DATA, WIRE_HEADERS, WIRE_SETTINGS = 4, WIRE_END_STREAM = 1, WIRE_END_HEADERS = 4 };

struct wire_request {
    const char *method, *path, *headers, *body; /* `headers`: of HTTP/1.1 only */
};

static const struct wire_request wire_requests[] = {
    {"GET", "/v2/health/live", "", ""},
    {"GET", "/metrics", "", ""},
    {"GET", "/openapi.json", "", ""},
    {"HEAD", "/v2/models/stats", "", ""},
    {"POST", "/v2/models/identity/infer", "", WIRE_BODY},
    {"POST", "/v2/models/held/infer", "", WIRE_BODY},
    {"POST", "/v2/models/held/infer", "Expect: 100-continue\r\n", WIRE_BODY},
    {"POST", "/v2/models/offender/infer", "Connection: close\r\n", WIRE_BODY},
    {"POST", "/v2/models/identity/generate_stream", "", "{\"IN\":[1,2]}"},
    {"POST", "/v2/repository/models/identity/load", "", "{}"},
    {"POST", "/v2/repository/index", "Content-Encoding: gzip\r\n", "{}"},
    {"POST", "/v2/models/identity/infer", "Inference-Header-Content-Length: 9\r\n", WIRE_BODY},
    {"POST", "/v2/models/identity/infer", "Transfer-Encoding: chunked\r\n", WIRE_BODY},
};

static const char *const wire_calls[] = {
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/inference.GRPCInferenceService/Unknown",
};

/* Without a length the body is one chunk. */
static inline void wire_put_http1(struct tt_text *out, size_t index, bool is_chunked) {
    const struct wire_request *request = WIRE_AT(wire_requests, index);
    size_t length = strlen(request->body);
    tt_text_printf(out, "%s %s HTTP/1.1\r\nHost: x\r\n%s", request->method, request->path,
                   request->headers);
    if (!length)
        tt_text_puts(out, "\r\n");
    else if (is_chunked)
        tt_text_printf(out, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n", length,
                       request->body);
    else
        tt_text_printf(out, "Content-Length: %zu\r\n\r\n%s", length, request->body);
}

static inline void wire_put_frame(struct tt_text *out, uint8_t type, uint8_t flags, uint8_t stream,
                                  const void *payload, size_t size) {
    const uint8_t head[] = {
        (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, type, flags, 0, 0, 0, stream};
    tt_text_append(out, head, sizeof(head));
    tt_text_append(out, payload, size);
}

static inline void wire_put_preface(struct tt_text *out) {
    tt_text_puts(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    wire_put_frame(out, WIRE_SETTINGS, 0, 0, "", 0);
}

/* A header that is neither indexed nor packed; both are shorter than 127 bytes. */
static inline void wire_put_header(struct tt_text *out, const char *name, const char *value) {
    const uint8_t lengths[] = {(uint8_t)strlen(name), (uint8_t)strlen(value)};
    tt_assert(lengths[0] < 127 && lengths[1] < 127);
    tt_text_append(out, "\0", 1);
    tt_text_append(out, &lengths[0], 1);
    tt_text_puts(out, name);
    tt_text_append(out, &lengths[1], 1);
    tt_text_puts(out, value);
}

static inline void wire_put_head(struct tt_text *out, uint8_t stream, const char *method,
                                 const char *path, bool is_grpc, bool ends) {
    struct tt_text block;
    tt_text_init(&block);
    wire_put_header(&block, ":method", method);
    wire_put_header(&block, ":scheme", "http");
    wire_put_header(&block, ":path", path);
    wire_put_header(&block, ":authority", "x");
    if (is_grpc) {
        wire_put_header(&block, "te", "trailers");
        wire_put_header(&block, "content-type", "application/grpc");
    }
    wire_put_frame(out, WIRE_HEADERS, (uint8_t)(WIRE_END_HEADERS | (ends ? WIRE_END_STREAM : 0)),
                   stream, block.bytes, block.length);
    tt_text_fini(&block);
}

/* A request over HTTP/2; `has_body`: all of it, else its body is to come. */
static inline void wire_put_http2(struct tt_text *out, size_t index, uint8_t stream,
                                  bool has_body) {
    const struct wire_request *request = WIRE_AT(wire_requests, index);
    size_t length = strlen(request->body);
    wire_put_head(out, stream, request->method, request->path, false, !length);
    if (length && has_body)
        wire_put_frame(out, WIRE_DATA, WIRE_END_STREAM, stream, request->body, length);
}

static inline void wire_put_call(struct tt_text *out, size_t index, uint8_t stream) {
    wire_put_head(out, stream, "POST", *WIRE_AT(wire_calls, index), true, false);
}

/* A message: an inference of model identity or held, or an empty one. */
static inline void wire_put_message(struct tt_text *out, size_t index, uint8_t stream, bool ends) {
    static const struct {
        const char *bytes;
        size_t size;
    } messages[] = {
        {"\0\0\0\0\x24\x0a\x08identity\x2a\x0e\x0a\2IN\x12\4FP32\x1a\2\1\2\x3a\x08\0\0\x80\x3f\0\0"
         "\0@",
         41},
        {"\0\0\0\0\x20\x0a\4held\x2a\x0e\x0a\2IN\x12\4FP32\x1a\2\1\2\x3a\x08\0\0\x80\x3f\0\0\0@",
         37},
        {"\0\0\0\0\0", 5},
        {"\1\0\0\0\2\x1f\x8b", 7}, /* packed, and cut off */
    };
    wire_put_frame(out, WIRE_DATA, ends ? WIRE_END_STREAM : 0, stream,
                   WIRE_AT(messages, index)->bytes, WIRE_AT(messages, index)->size);
}

#endif
