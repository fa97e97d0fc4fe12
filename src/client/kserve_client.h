/* The client's side of the Open Inference Protocol: what a client reads and writes.
 *
 * Life: a model's inputs are read from its metadata (`GET /v2/models/NAME`), their open dimensions
 * are fixed, and bodies are made, with drawn values or from requests in a file. A body is the part
 * that all requests share: the JSON from "inputs" on and the binary tensors after it.
 * `tt_kserve_client_head` writes the part before it: the HTTP head, and the start of the JSON with
 * the request's parameters. So a body can be sent any number of times, by reference.
 *
 * Values are drawn from a generator that is passed in: floats in [0, 1), integers in [0, 8) (valid
 * as indices almost everywhere), booleans, strings of 8 letters.
 *
 * It never opens a connection. Implemented in kserve_client.c. */
#ifndef TT_CLIENT_KSERVE_CLIENT_H
#define TT_CLIENT_KSERVE_CLIENT_H

#include "base/prng.h"
#include "base/text.h"
#include "core/tensor.h"

struct tt_kserve_client_model {
    char name[TT_MAX_NAME_BYTES];
    int32_t input_count;
    /* A shape's dimension 0 is the rows where it is -1; other -1 take the request's length. */
    struct tt_tensor_spec inputs[TT_MAX_TENSORS];
};

/* Reads a model's metadata. INVALID: not metadata, or an unknown datatype. */
TT_MUST_CHECK enum tt_err tt_kserve_client_model_read(const char *json, size_t size_bytes,
                                                      struct tt_kserve_client_model *out_model,
                                                      struct tt_error *why);
/* Fixes the dimensions of an input except the rows: `dims` like "3,224,224". NOT_FOUND: no such
 * input. INVALID: dimensions that differ from the model's. */
TT_MUST_CHECK enum tt_err tt_kserve_client_shape(struct tt_kserve_client_model *self,
                                                 const char *input, const char *dims,
                                                 struct tt_error *why);
/* The first input with a dimension that takes the request's length; NULL: none. */
const struct tt_tensor_spec *tt_kserve_client_open_input(const struct tt_kserve_client_model *self);
/* True: a request can have several rows. */
bool tt_kserve_client_has_rows(const struct tt_kserve_client_model *self);

struct tt_kserve_client_body {
    struct tt_text json; /* `"inputs":[...]}` */
    struct tt_text binary;
    bool has_binary; /* tensors are in `binary`, even if all are empty */
};

void tt_kserve_client_body_fini(struct tt_kserve_client_body *self);
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_client_body_draw(const struct tt_kserve_client_model *model,
                                                     int32_t rows, int64_t length, bool binary,
                                                     struct tt_prng *prng,
                                                     struct tt_kserve_client_body *out_body,
                                                     struct tt_error *why);
/* From an inference request in JSON, {"inputs": [...]}. Its `outputs` are kept, its `id` and
 * `parameters` are not. `binary`: tensors are converted to that form. INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_client_body_read(const char *json, size_t size_bytes,
                                                     bool binary,
                                                     struct tt_kserve_client_body *out_body,
                                                     struct tt_error *why);

/* Appends "/v2/models/NAME"; bytes that a path must not contain become %XX. */
void tt_kserve_client_path(const char *model, struct tt_text *out_text);

struct tt_kserve_client_request {
    const char *authority; /* for Host */
    const char *headers;   /* further ones, each with its end of line; NULL: none */
    const char *model;
    const struct tt_kserve_client_body *body;
    int64_t timeout_us; /* <= 0: none */
    int64_t priority;   /* 0: none */
    bool binary;        /* outputs are requested in that form */
};

/* Appends the HTTP head and the start of the JSON. */
void tt_kserve_client_head(const struct tt_kserve_client_request *request,
                           struct tt_text *out_text);

#endif
