/* The other side of the Open Inference Protocol: what one who asks has to know and to write.
 *
 * Life: a model's inputs are read from its metadata (`GET /v2/models/NAME`), their open dimensions
 * are settled, and bodies are made: with drawn values, or from requests that somebody wrote into a
 * file. A body is everything but what differs from request to request: the JSON from "inputs" on
 * and the binary tensors behind it. `tt_kserve_client_head` writes what stands before that: the
 * HTTP head, and the JSON's opening with the request's parameters. So a body can be sent any number
 * of times, by reference.
 *
 * Values are drawn from a generator that is passed in: floats in [0, 1), integers in [0, 8) (so
 * that they are indices almost everywhere), booleans, strings of 8 letters. */
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

/* From the text of its metadata. INVALID: not that, or a datatype that is not known here. */
TT_MUST_CHECK enum tt_err tt_kserve_client_model_read(const char *json, size_t size_bytes,
                                                      struct tt_kserve_client_model *out_model,
                                                      struct tt_error *why);
/* Settles the dimensions of an input but the rows: `dims` like "3,224,224". NOT_FOUND: no such
 * input; INVALID: other dimensions than the model's. */
TT_MUST_CHECK enum tt_err tt_kserve_client_shape(struct tt_kserve_client_model *self,
                                                 const char *input, const char *dims,
                                                 struct tt_error *why);
/* The first input that takes the request's length; NULL: none does. */
const struct tt_tensor_spec *tt_kserve_client_open_input(const struct tt_kserve_client_model *self);
/* Can a request have several rows? */
bool tt_kserve_client_has_rows(const struct tt_kserve_client_model *self);

struct tt_kserve_client_body {
    struct tt_text json; /* `"inputs":[...]}` */
    struct tt_text binary;
};

void tt_kserve_client_body_fini(struct tt_kserve_client_body *self);
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_kserve_client_body_draw(const struct tt_kserve_client_model *model,
                                                     int32_t rows, int64_t length, bool binary,
                                                     struct tt_prng *prng,
                                                     struct tt_kserve_client_body *out_body,
                                                     struct tt_error *why);
/* From an infer request as a person writes it, {"inputs": [...]} in JSON; its `outputs` are kept,
 * its `id` and `parameters` are not. With `binary` the tensors are turned into that form. INVALID.
 */
TT_MUST_CHECK enum tt_err tt_kserve_client_body_read(const char *json, size_t size_bytes,
                                                     bool binary,
                                                     struct tt_kserve_client_body *out_body,
                                                     struct tt_error *why);

/* Appends "/v2/models/NAME", with what a path may not hold written as %XX. */
void tt_kserve_client_path(const char *model, struct tt_text *out_text);

struct tt_kserve_client_request {
    const char *authority; /* for Host */
    const char *model;
    const struct tt_kserve_client_body *body;
    int64_t timeout_us; /* <= 0: none */
    int64_t priority;   /* 0: none */
    bool binary;        /* outputs are asked for in that form */
};

/* Appends all that precedes the body's JSON. */
void tt_kserve_client_head(const struct tt_kserve_client_request *request,
                           struct tt_text *out_text);

#endif
